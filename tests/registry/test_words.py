import pytest

from registry.words import folded, matches


@pytest.mark.parametrize(
    ("search", "text"),
    [
        ("", "anything"),
        ("sorts TICKETS", "Sorts tickets by kind"),
        ("tickets sorts", "Sorts tickets by kind"),
        ("classify", "ticket.classify"),
        ("工单", "对工单进行分类"),
        ("工单分类", "对工单进行分类"),
        ("退款申请", "申请退款的入口"),
        ("投诉的处理", "处理客户投诉"),
        ("OCR识别", "发票识别 (ocr)"),
        ("STRASSE", "straße"),
    ],
)
def test_a_search_finds_words_in_any_order_and_chinese_in_pieces(search, text):
    assert matches(search, folded(text))


@pytest.mark.parametrize(
    ("search", "text"),
    [
        ("sorts emails", "Sorts tickets"),
        ("工单退款", "对工单进行分类"),
        ("单分", "对工单进行分类"),
        ("的", "对工单进行分类x"),
        ("%", "a"),
    ],
)
def test_a_search_finds_nothing_where_a_word_is_missing(search, text):
    assert not matches(search, folded(text))


def test_a_long_run_of_chinese_is_cut_in_bounded_time():
    assert not matches("分类" * 99 + "单", folded("分类 分类分 类分 类分类"))
