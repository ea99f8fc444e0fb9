"""Public: simulated worlds that know the truth, fakes, conformance suites. Never knows adapters."""
