"""The console in Debian's Chromium: `make browser` runs these tests in an environment of their own."""
