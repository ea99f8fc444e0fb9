"""Tools that others wrote, acted through and read back: the banking and slack environments of agentdojo.

agentdojo (MIT licence, ETH Zurich's SPY Lab and others) is a benchmark of agents, installed from its registry at the
version that requirements-agentdojo.lock pins, and without its dependencies. Nothing of it is copied here: its tools,
its environments and the ground truth of its tasks are imported as they are, and its packages' `__init__` are not run,
since they load model clients (see loader). Where its tools have faults of their own, they are left as they are.

    loader      imports the two suites, and leaves no trace of them in sys.modules
    world       the world: one environment, its tools, and the fault between a tool and the state
    faults      what goes wrong between a tool and the state, one way each
    expected    what the state has to be after a call, by its arguments alone: the tests' own truth
    records     the contracts' readers: the environments' models read directly, never through a tool
    banking     the contracts of the banking tools
    slack       the contracts of the slack tools
    reading     the contracts of the tools of both that only read
    replay      the calls of every task's ground truth, and one call through Readback
"""
