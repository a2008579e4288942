# The image of Assay: the pages, the workers and the beat are one image with three commands (compose.yaml).
# docs/docker.md says how it is built and used.

FROM python:3.11.14-slim-bookworm AS build
# none: without the transformer backbone. cpu, cuda: with it (several GB).
ARG ENCODER=none
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /opt/assay
RUN python3 -m venv /opt/venv
COPY requirements.lock requirements-encoder.lock ./
RUN /opt/venv/bin/pip install --require-hashes --requirement requirements.lock
# The CPU build of torch comes from PyTorch's own index, and is the only file that no hash here names.
RUN case "$ENCODER" in \
    none) ;; \
    cuda) /opt/venv/bin/pip install --require-hashes --requirement requirements-encoder.lock ;; \
    cpu) torch="$(awk '/^torch==/ { print $1 }' requirements-encoder.lock)" \
        && awk '/^[a-z]/ { others = !/^(cuda|nvidia|torch|triton)[-=]/ } others' requirements-encoder.lock > /tmp/others.lock \
        && /opt/venv/bin/pip install --no-deps --index-url https://download.pytorch.org/whl/cpu "$torch" \
        && /opt/venv/bin/pip install --require-hashes --requirement /tmp/others.lock ;; \
    *) echo "ENCODER=$ENCODER: say none, cpu or cuda" >&2; exit 1 ;; \
    esac
COPY . .
RUN ASSAY_DATA_DIR=/tmp/assay /opt/venv/bin/python manage.py collectstatic --noinput \
    && /opt/venv/bin/python -m compileall -q config annotation scoring benchmark

FROM python:3.11.14-slim-bookworm
# The commit, which stands in every card, release and run: --build-arg VERSION="$(./run version | cut -d ' ' -f 2)"
ARG VERSION=
ENV ASSAY_CODE_VERSION=$VERSION \
    ASSAY_DATA_DIR=/srv/assay \
    PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
RUN groupadd --system --gid 10001 assay \
    && useradd --system --uid 10001 --gid assay --home-dir /srv/assay --shell /usr/sbin/nologin assay \
    && install --directory --owner assay --group assay --mode 750 /srv/assay
# Both belong to root: what the pages or a worker do can change no code.
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/assay /opt/assay
WORKDIR /opt/assay
USER 10001:10001
VOLUME /srv/assay
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["gunicorn", "--config", "config/gunicorn.py", "--bind", "0.0.0.0:8000"]
