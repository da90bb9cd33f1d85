// The live page of `bench --serve`: asks how far the campaign is, and takes a newer report in place
// of the one that is shown, with the scroll, the open details and the address as they were.
// `main[data-live]` is the number of the report. Text of the campaign is only ever textContent.
(() => {
  "use strict";
  const EVERY_MS = 3000;
  const AWAY_MS = 10000; // between two questions while nobody answers
  const bar = document.getElementById("live");
  let seen = new Date();
  let over = false;

  const shown = () => document.querySelector("main");
  const clock = (date) => date.toLocaleTimeString();

  function say(words, state) {
    const text = `${words} \u00b7 report of ${clock(seen)}`;
    if (bar.textContent !== text) bar.textContent = text;
    bar.dataset.state = state;
  }

  // A name for an element that the next report has, too: the id it lies in, and which of its kind.
  function named(element, selector) {
    const home = element.closest("[id]") || shown();
    const kind = Array.from(home.querySelectorAll(selector));
    return [home.id, element.matches("[id]") ? -1 : kind.indexOf(element)];
  }
  function found([id, index], selector) {
    const home = id ? document.getElementById(id) : shown();
    return index < 0 || !home ? home : home.querySelectorAll(selector)[index];
  }

  // What a person did to the page, as a function that does it again.
  function kept() {
    const details = Array.from(shown().querySelectorAll("details"), (each) => [named(each, "details"), each.open]);
    const scrolled = Array.from(shown().querySelectorAll(".scroll"), (each) => [named(each, ".scroll"), each.scrollLeft]);
    const focused = document.activeElement && shown().contains(document.activeElement)
      ? named(document.activeElement, "a, button, input, select, summary, [tabindex]") : null;
    const top = Array.from(shown().querySelectorAll("[id]")).find((each) => each.getBoundingClientRect().bottom > 0);
    const anchor = top && window.scrollY > 0 ? [top.id, top.getBoundingClientRect().top] : null;
    const at = [window.scrollX, window.scrollY];
    return () => {
      for (const [name, open] of details) {
        const each = found(name, "details");
        if (each && each.matches("details")) each.open = open;
      }
      for (const [name, left] of scrolled) {
        const each = found(name, ".scroll");
        if (each) each.scrollLeft = left;
      }
      const focus = focused && found(focused, "a, button, input, select, summary, [tabindex]");
      if (focus) focus.focus({ preventScroll: true });
      const same = anchor && document.getElementById(anchor[0]);
      if (same) window.scrollBy(0, same.getBoundingClientRect().top - anchor[1]);
      else window.scrollTo(...at);
    };
  }

  // Somebody who types or marks text is not disturbed; the report waits.
  function busy() {
    const active = document.activeElement;
    const typing = active && shown().contains(active) && active.matches("input, select, textarea");
    return typing || !getSelection().isCollapsed;
  }

  async function renew() {
    // The page that waits for the first report may not run the report's own script.
    if (shown().dataset.live === "0") return void location.reload();
    const answer = await fetch("./", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const restore = kept();
    shown().replaceWith(document.adoptNode(next.querySelector("main")));
    document.title = next.title;
    seen = new Date();
    document.dispatchEvent(new Event("report:replaced")); // the page's own script begins anew
    restore();
  }

  async function look() {
    let wait = EVERY_MS;
    try {
      const answer = await fetch("now", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const now = await answer.json();
      const newer = now.version > Number(shown().dataset.live);
      if (newer && !busy()) await renew();
      over = now.over && !(newer && busy());
      let words = over ? "The campaign has ended; nothing changes here any more." : now.words || "The campaign begins.";
      if (now.problem) words += ` A newer report cannot be made: ${now.problem}.`;
      if (newer && busy()) words += " A newer report waits until nothing is marked and no field is edited.";
      say(words, over ? "over" : "live");
    } catch (error) {
      say("Nobody answers: bench has ended, or the connection is gone.", "away");
      wait = AWAY_MS;
    }
    if (!over) setTimeout(next, wait);
  }

  // Nothing is asked while nobody looks.
  function next() {
    if (!document.hidden) return void look();
    document.addEventListener("visibilitychange", next, { once: true });
  }
  next();
})();
