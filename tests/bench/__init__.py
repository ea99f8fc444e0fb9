"""The programs and tables of `make bench`, in small."""
