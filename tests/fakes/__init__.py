"""Stateful fakes of the dataplane drivers: in memory, under the same contract tests as the real drivers."""
