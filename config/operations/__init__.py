"""What whoever runs Assay sees of it: health, metrics, requests in the log, outages (docs/operations.md)."""
