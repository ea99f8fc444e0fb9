"""The chapter of the trips: five steps with a pivot."""
