"""Conformance: the reference library's answers, case by case, against ours."""
