"""Measures a page in a browser, and checks it with axe-core.

Measured are the contrast of texts (WCAG 2.2 §1.4.3), focus (§2.1.1, §1.4.11, §2.4.11) and width (§1.4.10).
"""

from __future__ import annotations

import functools

from tests.live.browser.chromium import Chromium
from tests.live.clients import node

TEXT_CONTRAST = 4.5
FOCUS_CONTRAST = 3
MAX_STOPS = 400
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
_LOOKS = ("link-in-text-block", "target-size", "scrollable-region-focusable")
_SEVERE = ("serious", "critical")

# Colours are [red, green, blue, alpha] with 0–255 and 0–1.
_SCRIPT = r"""(() => {
if (window.measure) return true
const channels = (value) => {
    const srgb = value.startsWith('color(srgb')
    const [red, green, blue, alpha = 1] = value.match(/[\d.]+(e-\d+)?/g).map(Number)
    return [...[red, green, blue].map((channel) => (srgb ? channel * 255 : channel)), alpha]
}
const over = (front, back) => {
    const behind = back[3] * (1 - front[3])
    const alpha = front[3] + behind
    if (alpha === 0) return [0, 0, 0, 0]
    return [...[0, 1, 2].map((index) => (front[index] * front[3] + back[index] * behind) / alpha), alpha]
}
const luminance = (colour) => {
    const [red, green, blue] = colour.map((value) => {
        const share = value / 255
        return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((left, right) => left - right)
    return (light + 0.05) / (dark + 0.05)
}
// The page behind everything is white, or nearly black if the page declares a dark scheme.
const isDarkCanvas = () => {
    const {colorScheme} = getComputedStyle(document.documentElement)
    const prefersDark = matchMedia('(prefers-color-scheme: dark)').matches
    return colorScheme.includes('dark') && (!colorScheme.includes('light') || prefersDark)
}
const background = (element) => {
    let found = [0, 0, 0, 0]
    for (let ancestor = element; ancestor && found[3] < 1; ancestor = ancestor.parentElement) {
        found = over(found, channels(getComputedStyle(ancestor).backgroundColor))
    }
    return over(found, isDarkCanvas() ? [18, 18, 18, 1] : [255, 255, 255, 1])
}
const opacity = (element) => {
    let product = 1
    for (let ancestor = element; ancestor; ancestor = ancestor.parentElement) {
        product *= Number(getComputedStyle(ancestor).opacity)
    }
    return product
}
const isVisible = (element) => {
    const {width, height} = element.getBoundingClientRect()
    return width > 1 && height > 1 && element.checkVisibility({visibilityProperty: true})
}
const name = (element) => {
    const names = [...element.classList].map((name) => '.' + name).join('')
    return element.tagName.toLowerCase() + (element.id ? '#' + element.id : '') + names
}
const textColour = (element, pseudo) => {
    const colour = channels(getComputedStyle(element, pseudo).color)
    return [colour[0], colour[1], colour[2], colour[3] * opacity(element)]
}
// Every visible text whose contrast is less than `least`, as {text, where, ratio}; disabled controls are exempt.
const faintTexts = (least) => {
    const found = []
    const check = (element, text, pseudo) => {
        const behind = background(element)
        const ratio = contrast(over(textColour(element, pseudo), behind), behind)
        if (ratio < least) found.push({text: text.trim().slice(0, 60), where: name(element), ratio: ratio.toFixed(2)})
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    let count = 0
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
        const element = node.parentElement
        if (!node.data.trim() || !isVisible(element) || element.closest(':disabled, noscript, svg')) continue
        count += 1
        check(element, node.data)
    }
    for (const field of document.querySelectorAll('input, textarea, select')) {
        if (!isVisible(field) || field.disabled || ['checkbox', 'radio', 'hidden'].includes(field.type)) continue
        count += 1
        if (field.value) check(field, field.value)
        else if (field.placeholder) check(field, field.placeholder, '::placeholder')
    }
    return {count, found}
}
const FOCUSABLE = 'a[href], button, input, select, textarea, summary, iframe, [tabindex]'
const focusable = () => [...document.querySelectorAll(FOCUSABLE)].filter((element) => (
    isVisible(element) && !element.disabled && element.tabIndex >= 0 && element.type !== 'hidden'
    && (element.type !== 'radio' || element.checked)))
const marks = (element) => {
    const {outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor} = getComputedStyle(element)
    return {outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor}
}
let unfocused = new Map()
const remember = () => {
    // The next press of Tab starts here.
    document.body.tabIndex = -1
    document.body.focus({preventScroll: true})
    document.body.removeAttribute('tabindex')
    document.activeElement.blur()
    reached.clear()
    last = null
    unfocused = new Map(focusable().map((element) => [element, marks(element)]))
    return unfocused.size
}
// Focuses each element by script; after a press of Tab, browsers show this focus as that of a keyboard.
const focusAll = () => {
    const found = []
    for (const element of unfocused.keys()) {
        if (element.tagName === 'IFRAME') continue
        element.focus({preventScroll: true})
        const isFocused = document.activeElement === element
        found.push({where: name(element), ratio: isFocused ? focusContrast(element) : 0, tabIndex: element.tabIndex})
    }
    return found
}
// The mark of the focused element: its contrast with the colour beside it.
const focusContrast = (element) => {
    const now = marks(element)
    const beside = background(element.parentElement ?? element)
    if (now.outlineStyle === 'auto') return 21  // the browser draws a light and a dark ring
    const ratios = [0]
    if (now.outlineStyle !== 'none' && parseFloat(now.outlineWidth) >= 1) {
        ratios.push(contrast(over(channels(now.outlineColor), beside), beside))
    }
    const before = unfocused.get(element)
    if (before && now.boxShadow !== 'none' && now.boxShadow !== before.boxShadow) {
        ratios.push(contrast(over(channels(now.boxShadow.match(/^[a-z]+\([^)]*\)/)[0]), beside), beside))
    }
    if (before && now.borderColor !== before.borderColor) {
        ratios.push(contrast(over(channels(now.borderColor), beside), over(channels(before.borderColor), beside)))
    }
    return Math.max(...ratios)
}
const reached = new Set()
let last = null
// The element that the last press of Tab focused: null at the end of the page. Inside a frame it stays the same.
const stop = () => {
    const element = document.activeElement
    if (element?.tagName === 'IFRAME' && element === last) return {where: name(element), ratio: 21}
    last = element
    if (!element || element === document.body || reached.has(element)) return null
    reached.add(element)
    return {where: name(element), ratio: element.tagName === 'IFRAME' ? 21 : focusContrast(element)}
}
// A frame of another process may take the focus later.
const missed = () => [...unfocused.keys()]
    .filter((element) => !reached.has(element) && element.tagName !== 'IFRAME').map(name)
window.measure = {faintTexts, remember, focusAll, stop, missed}
return true
})()"""

_CLIPPED = """(() => {
    const found = []
    for (const table of document.querySelectorAll('#content table')) {
        const hidden = table.scrollWidth - table.parentElement.clientWidth
        if (table.checkVisibility() && hidden > 1) found.push(`table clipped by ${hidden} pixels`)
    }
    const header = [...document.querySelectorAll('#header :is(#site-name, #lists a, #user-tools > *)')]
        .filter((element) => element.checkVisibility()).map((element) => element.getBoundingClientRect())
    if (header.some(({top}) => header.some(({bottom}) => top >= bottom))) found.push('header of several rows')
    return found
})()"""


def find_problems(browser: Chromium, *, presses_tab: bool = True) -> list[str]:
    """Faint texts, elements that Tab does not reach or whose focus is invisible, and a page wider than the window.

    Without `presses_tab`, elements are focused by script, which is enough if no script of the page handles keys.
    """
    _finish_transitions(browser)
    browser.evaluate(_SCRIPT)
    keyboard_problems = _tab_problems(browser) if presses_tab else _focus_problems(browser)
    return [*_faint_texts(browser), *keyboard_problems, *overflow(browser)]


def find_violations(browser: Chromium, *, only_looks: bool = False) -> list[str]:
    """The serious and critical violations of WCAG 2.2 A and AA that axe-core finds; `find_problems` measures contrasts.

    `only_looks`: only of the rules on links in texts and on sizes, for a page whose other rules have been checked.
    """
    if not browser.evaluate("'axe' in window"):
        browser.evaluate(_axe_core())
    violations = browser.evaluate(f"""axe.run({{
        runOnly: {list(_LOOKS if only_looks else _RULES)}, resultTypes: ['violations'], iframes: false,
        rules: {{'color-contrast': {{enabled: false}}}},
    }}).then(({{violations}}) => violations.map(({{id, impact, help, nodes}}) => (
        {{id, impact, help, nodes: nodes.slice(0, 5).map(({{html}}) => html.slice(0, 200))}})))""")
    return [
        f"{found['impact']}: {found['id']}: {found['help']}: {found['nodes']}"
        for found in violations
        if found["impact"] in _SEVERE
    ]


def _finish_transitions(browser: Chromium) -> None:
    """Skip to the end of the transitions that a change of the colour scheme starts."""
    browser.evaluate("""new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
        for (const animation of document.getAnimations()) {
            if (animation.effect.getComputedTiming().endTime !== Infinity) animation.finish()
        }
        resolve(true)
    })))""")


@functools.cache
def _axe_core() -> str:
    node.install()
    return (node.FOLDER / "node_modules" / "axe-core" / "axe.min.js").read_text()


def _faint_texts(browser: Chromium) -> list[str]:
    """Raises AssertionError if the page has no text."""
    measured = browser.evaluate(f"measure.faintTexts({TEXT_CONTRAST})")
    assert measured["count"] > 0
    return [f"{text['where']}: text has a contrast of {text['ratio']}: {text['text']}" for text in measured["found"]]


def _tab_problems(browser: Chromium) -> list[str]:
    expected = browser.evaluate("measure.remember()")
    problems = []
    stops = 0
    for _ in range(MAX_STOPS):
        browser.press_tab()
        stop = browser.evaluate("measure.stop()")
        if stop is None:
            break
        stops += 1
        if stop["ratio"] < FOCUS_CONTRAST:
            problems.append(f"{stop['where']}: focus has a contrast of {stop['ratio']:.2f}")
    assert stops > 0 or not expected
    return problems + [f"{where}: not reached" for where in browser.evaluate("measure.missed()")]


def _focus_problems(browser: Chromium) -> list[str]:
    browser.evaluate("measure.remember()")
    browser.press_tab()
    problems = []
    for focused in browser.evaluate("measure.focusAll()"):
        if focused["ratio"] < FOCUS_CONTRAST:
            problems.append(f"{focused['where']}: focus has a contrast of {focused['ratio']:.2f}")
        if focused["tabIndex"] > 0:
            problems.append(f"{focused['where']}: tabindex changes the order")
    return problems


def clipped(browser: Chromium) -> list[str]:
    """In a wide window: a page wider than the window, tables that must be scrolled, and a header of several rows."""
    return [*overflow(browser), *browser.evaluate(_CLIPPED)]


def overflow(browser: Chromium) -> list[str]:
    pixels = browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [f"{pixels} pixels wider than the window"] if pixels > 0 else []
