from reach_platform.translatable import marked_texts


def test_texts_are_found_in_code_and_templates(tmp_path):
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry/a.py").write_text('x = _("one")\ny = ngettext("two", "twos", 2)\nz = other("no")\n')
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/a.html").write_text('<p>{% translate "three" %}</p>')
    assert marked_texts(tmp_path) == {"one", "two", "three"}
