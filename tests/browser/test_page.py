"""The page of `xla-shmem inspect --html`, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import Chromium
from click.testing import CliRunner
from hlo_samples import CPU_SYNC, NO_COLLECTIVE, gpu_start_done, many_collectives

from xla_shmem.cli.main import main

FIRST_CELLS = "[...document.querySelectorAll('.row')].map(row => row.children[{column}].textContent)"


def write_page(directory: Path, module: str, *arguments: str) -> Path:
    (directory / "m.txt").write_text(module)
    page = directory / "report.html"
    result = CliRunner().invoke(main, ["inspect", str(directory / "m.txt"), "--html", str(page), *arguments])
    assert result.exit_code == 0, result.stderr
    return page


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("many"), many_collectives(5000), "--devices-per-process", "4")


def cells(browser: Chromium, column: int) -> list[str]:
    found: list[str] = browser.run(FIRST_CELLS.format(column=column))
    return found


def set_filter(browser: Chromium, name: str, value: str) -> None:
    browser.run(
        f"document.getElementById('{name}').value = '{value}';"
        f"document.getElementById('{name}').dispatchEvent(new Event('input', {{bubbles: true}}))"
    )


def count(browser: Chromium) -> str:
    text: str = browser.run("document.getElementById('count').textContent")
    return text


def test_the_table_of_five_thousand_collectives_has_only_the_visible_rows(browser: Chromium, many: Path) -> None:
    browser.open(many)
    assert count(browser) == "5000 of 5000"
    assert 10 < len(cells(browser, 0)) < 60
    browser.run("document.getElementById('table').scrollTop = 1e9")
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert cells(browser, 0)[-1] == "move-start.4999"
    assert len(cells(browser, 0)) < 60


def test_a_click_on_a_header_sorts_all_rows_and_a_second_click_reverses_them(browser: Chromium, many: Path) -> None:
    browser.open(many)
    name = "document.querySelector('#head button')"
    browser.run(f"{name}.click()")
    browser.run(f"{name}.click()")
    assert cells(browser, 0)[:2] == ["sum.4997", "sum.4994"]  # numbers in names are compared as numbers
    heading = "[...document.querySelectorAll('#head button')].find(button => button.textContent.startsWith('bytes'))"
    browser.run(f"{heading}.click()")
    assert set(cells(browser, 3)) == {"16.0 MiB"}
    browser.run(f"{heading}.click()")
    assert set(cells(browser, 3)) == {"4.0 KiB"}
    assert browser.run(f"{heading}.parentNode.getAttribute('aria-sort')") == "ascending"


def test_a_row_must_meet_all_filters(browser: Chromium, many: Path) -> None:
    browser.open(many)
    set_filter(browser, "op", "all-reduce")
    assert count(browser) == "1666 of 5000"
    set_filter(browser, "least", "8 MiB")
    assert set(cells(browser, 1)) == {"all-reduce"}
    assert set(cells(browser, 3)) == {"8.0 MiB", "16.0 MiB"}
    set_filter(browser, "loop", "out")
    assert all("(loop)" not in computation for computation in cells(browser, 9))
    set_filter(browser, "backend", "NVSHMEM")
    assert count(browser) == "0 of 5000"
    assert cells(browser, 0) == []


def test_words_are_searched_in_names_and_reasons(browser: Chromium, many: Path) -> None:
    browser.open(many)
    set_filter(browser, "find", "MOVE 4999")
    assert cells(browser, 0) == ["move-start.4999"]


def test_selecting_a_collective_shows_its_participants(browser: Chromium, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path, CPU_SYNC, "--devices-per-process", "2"))
    browser.run("[...document.querySelectorAll('.row')].find(row => row.children[0].textContent === 'large').click()")
    assert browser.run("document.getElementById('details-title').textContent") == "large"
    colours = browser.run("[...document.querySelectorAll('.device')].map(cell => cell.style.background)")
    assert colours[0] == colours[1] != colours[2] == colours[3]
    browser.run("[...document.querySelectorAll('.row')].find(row => row.children[0].textContent === 'permute').click()")
    assert browser.run("document.querySelectorAll('#topology svg > path').length") == 4


def test_a_click_in_the_schedule_selects_the_collective_and_its_row(browser: Chromium, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path, gpu_start_done(None)))
    box = browser.run(
        "(({x, y, width}) => ({x, y, width}))(document.querySelector('#timeline canvas').getBoundingClientRect())"
    )
    # permute-start, square, permute-done, reduce-start, reduce-done: the last bar is on the right, in the first lane.
    browser.click(box["x"] + box["width"] * 0.9, box["y"] + 45)
    assert browser.run("document.getElementById('details-title').textContent") == "reduce-start"
    assert browser.run("document.querySelector('.row.selected').children[0].textContent") == "reduce-start"
    assert "nothing" in browser.run("document.getElementById('facts').textContent")
    browser.click(box["x"] + box["width"] * 0.3, box["y"] + 45)
    assert "1 instruction, 8.2 kFLOP" in browser.run("document.getElementById('facts').textContent")


def test_another_module_can_be_selected(browser: Chromium, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text(gpu_start_done(None))
    browser.open(write_page(tmp_path, CPU_SYNC, str(tmp_path / "other.txt")))
    assert count(browser) == "3 of 3"
    browser.run("document.getElementById('module').value = 1")
    browser.run("document.getElementById('module').dispatchEvent(new Event('change'))")
    assert cells(browser, 0) == ["permute-start", "reduce-start"]
    assert browser.run("document.querySelectorAll('.device').length") == 8


def test_only_modules_of_gpus_have_a_schedule(browser: Chromium, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text(gpu_start_done(None))
    browser.open(write_page(tmp_path, CPU_SYNC, str(tmp_path / "other.txt")))
    hidden = "document.getElementById('schedule').hidden"
    assert browser.run(hidden) is True
    assert "Schedule" not in browser.run("document.body.innerText")
    assert browser.run("document.querySelector('main').scrollWidth") > 900
    browser.run("document.getElementById('module').value = 1")
    browser.run("document.getElementById('module').dispatchEvent(new Event('change'))")
    assert browser.run(hidden) is False
    assert browser.run("document.querySelector('#timeline canvas').width") > 300


@pytest.mark.parametrize("width", [480, 360])
@pytest.mark.parametrize("module", [CPU_SYNC, gpu_start_done("NVSHMEM"), many_collectives(40)])
def test_a_narrow_window_needs_no_sideways_scrolling(
    browser: Chromium, tmp_path: Path, module: str, width: int
) -> None:
    long = "a_rather_long_name_of_the_kind_that_programs_give_" * 3
    folder = tmp_path / long
    folder.mkdir()
    browser.resize(width)
    for old in ("jit_step", "jit_ring", "jit_many", "%permute-start", "%body"):
        module = module.replace(old, old + long)
    browser.open(write_page(folder, module, "--devices-per-process", "4"))
    assert browser.run("innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") == width
    wide = "[...document.querySelectorAll('body > *, main > *, section > *, .controls > *')].filter(one =>"
    wide += f" one.getBoundingClientRect().right > {width}).map(one => one.tagName + one.className + one.id)"
    assert browser.run(wide) == []


def test_arrow_keys_select_rows(browser: Chromium, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path, CPU_SYNC))
    press = "document.getElementById('table').dispatchEvent(new KeyboardEvent('keydown', {key: 'Arrow%s'}))"
    chosen = "document.getElementById('details-title').textContent"
    names = [browser.run(chosen)]
    for key in ("Down", "Down", "Down", "Up"):
        browser.run(press % key)
        names.append(browser.run(chosen))
    assert names == ["permute", "small", "large", "large", "small"]


def test_a_page_without_collectives_says_so(browser: Chromium, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path, NO_COLLECTIVE))
    assert browser.run("document.body.innerText").split("\n")[-1] == "No module has a collective."


def test_names_are_not_parsed_as_markup(browser: Chromium, tmp_path: Path) -> None:
    path = "/tmp/</script><img src=x onerror=document.title=1>.py"
    module = CPU_SYNC.replace("to_apply=%sum", f'to_apply=%sum, metadata={{source_file="{path}" source_line=7}}')
    browser.open(write_page(tmp_path, module))
    assert browser.run("document.title") == "xla-shmem inspect"
    assert browser.run("document.images.length") == 0
    set_filter(browser, "find", "onerror")
    assert count(browser) == "2 of 3"


def test_dark_and_light_scheme_differ_and_both_have_enough_contrast(browser: Chromium, tmp_path: Path) -> None:
    browser.open(write_page(tmp_path, CPU_SYNC))

    def contrast() -> tuple[float, str]:
        ink, page = browser.run(
            "(({color, backgroundColor}) => [color, backgroundColor])(getComputedStyle(document.body))"
        )
        lights = sorted(map(luminance, (ink, page)))
        return (lights[1] + 0.05) / (lights[0] + 0.05), page

    light = contrast()
    browser.prefer("dark")
    dark = contrast()
    assert light[1] != dark[1]
    assert min(light[0], dark[0]) > 7  # WCAG 2.2, level AAA


def luminance(rgb: str) -> float:
    """Returns the relative luminance of ``rgb(r, g, b)`` as WCAG defines it."""
    channels = [int(part) / 255 for part in rgb.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
