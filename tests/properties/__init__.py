"""What holds of every program."""

import tests.properties.profiles  # noqa: F401  # the profile has to be loaded before any property is defined
