"""Properties hold or not however busy the machine is: Hypothesis does not judge how long values and tests take."""

from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
