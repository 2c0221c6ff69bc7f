"""Are the keys of encrypted tables made as a server reads them, and for nobody else?"""

import re
from pathlib import Path

from recovery.mysqld.bootstrap import create_key_folder
from recovery.mysqld.options import KEY_FILE


def test_a_key_that_only_its_owner_may_read(tmp_path: Path) -> None:
    keys = [tmp_path / name for name in ("one", "two")]
    for folder in keys:
        create_key_folder(folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    texts = [(folder / KEY_FILE).read_text() for folder in keys]
    assert all(re.fullmatch(r"1;[0-9a-f]{64}\n", text) for text in texts)
    assert texts[0] != texts[1]
