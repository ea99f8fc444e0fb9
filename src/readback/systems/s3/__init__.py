"""Buckets over S3: uploading an object, and reading one."""
