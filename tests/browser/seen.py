"""The page as a person sees it."""

from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect

_SECONDS = 20
expect.set_options(timeout=_SECONDS * 1000)

_CONTRASTS = """() => {
  const channel = (value) =>
    value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  const parse = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const luminance = ([r, g, b]) =>
    0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b) + 0.05;
  const backOf = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const hasText = (element) =>
    [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  const texts = [...document.querySelectorAll("body *")].filter(
    (element) => element.checkVisibility() && hasText(element));
  return texts.map((element) => {
    const text = luminance(parse(getComputedStyle(element).color));
    const back = luminance(backOf(element));
    const ratio = Math.max(text, back) / Math.min(text, back);
    return [element.textContent.trim().slice(0, 40), ratio];
  });
}"""
"""Of each element with text of its own: the text, and its contrast (WCAG 2, relative luminance)."""


class Seen:
    """One page, and what it did besides."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.strangers: list[str] = []
        """What it asked others for than its own server."""
        self.complaints: list[str] = []
        """What the browser says is wrong with it: errors, and what its policy forbids."""
        self._own = urlsplit(url).netloc
        page.set_default_timeout(_SECONDS * 1000)
        page.on("request", self._note_request)
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.goto(url)

    @property
    def rows(self) -> Locator:
        """Those that are drawn."""
        return self.page.locator("#rows [role=row]")

    def row(self, name: str) -> Locator:
        header = self.page.get_by_role("rowheader").filter(
            has=self.page.get_by_text(name, exact=True)
        )
        return self.rows.filter(has=header)

    def expect_text(self, found: Locator, text: str) -> None:
        """It has this text in it, within a while."""
        expect(found).to_contain_text(text)

    def expect_gone(self, name: str) -> None:
        expect(self.row(name)).to_have_count(0)

    def expect_names(self, *names: str) -> None:
        """The drawn rows are about these, from top to bottom, within a while."""
        expect(self.rows.locator(".name")).to_have_text(names)

    def expect_card(self, node: str, said: str) -> None:
        """A screen reader says that of the node's one card, within a while."""
        expect(self.row(node).get_by_role("img")).to_have_attribute("aria-label", said)

    def names(self) -> list[str]:
        """What the drawn rows are about, from top to bottom."""
        names: list[str] = self.rows.locator(".name").all_inner_texts()
        return names

    def cards(self, node: str) -> list[str]:
        bars = self.row(node).get_by_role("img")
        return [bar.get_attribute("aria-label") or "" for bar in bars.all()]

    def focused(self) -> str:
        name: str = self.page.evaluate(
            "document.activeElement.querySelector('.name')?.textContent ?? ''"
        )
        return name

    def measure_contrasts(self) -> list[tuple[str, float]]:
        """Text that is shown, and how it stands out."""
        return [(text, ratio) for text, ratio in self.page.evaluate(_CONTRASTS)]

    def _note_request(self, request: Request) -> None:
        if urlsplit(request.url).netloc != self._own:
            self.strangers.append(request.url)

    def _note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)
