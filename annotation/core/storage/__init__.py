"""Files that several hosts share: a bucket, and what each host keeps of it in its own data folder.

Without ``ASSAY_STORAGE`` there is no bucket, the data folder has everything, and nothing here is called. A name in the
bucket is the path below the data folder, with slashes, so that a backup is the same of either.
"""
