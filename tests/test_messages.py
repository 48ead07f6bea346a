"""A changed error message is read in one list; other tests look only for the option, name or file in a message."""

import messages


def test_the_list_of_messages_is_up_to_date():
    assert messages.LIST.read_text(encoding="utf-8") == messages.listed(), "run python tests/helpers/messages.py"
