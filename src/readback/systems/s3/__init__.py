"""S3 buckets: uploads and reads of objects."""
