
import pytest

sys.argv[0] = "pytest"
sys.exit(pytest.console_main())
