"""A git repository as a system of record. The way in is `GitSource`."""

from readback.adapters.source_git.source import GitSource as GitSource
