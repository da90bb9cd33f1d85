// The live page of `bench --serve`: asks how far the campaign is, and takes a newer report in place
// of the one that is shown, with the scroll, the open details and the address as they were.
// `main[data-live]` is the number of the report. Text of the campaign is only ever textContent.
(() => {
  "use strict";
  const EVERY_MS = 3000;
  const AWAY_MS = 10000; // between two questions while nobody answers
  const FOCUSED = "a, button, input, select, summary, [tabindex]";
  const bar = document.getElementById("live");
  let seen = new Date();
  let over = false;

  const shown = () => document.querySelector("main");
  const clock = (date) => `${date.toISOString().slice(11, 19)} UTC`;

  function say(words, state) {
    const text = `${words} \u00b7 report of ${clock(seen)}`;
    if (bar.textContent !== text) bar.textContent = text;
    bar.dataset.state = state;
  }

  // A name for an element that the next report has, too: what it lies in, by its id or heading, and
  // which of its kind there. What lies in something else with a name does not count: there may be more.
  const home = (element) => element.closest("[id], section") || shown();
  const title = (place) => place.id || (place.matches("section") && place.querySelector("h2[id]")?.id) || "";
  function kinds(selector) {
    const all = new Map();
    for (const each of shown().querySelectorAll(selector)) {
      const place = home(each);
      if (!all.has(place)) all.set(place, []);
      all.get(place).push(each);
    }
    return all;
  }
  function named(selector) {
    const names = new Map();
    for (const [place, some] of kinds(selector)) {
      some.forEach((each, at) => names.set(each, `${place.localName} ${at} ${title(place)}`));
    }
    return names;
  }
  function found(selector) {
    return new Map(Array.from(named(selector), ([each, name]) => [name, each]));
  }

  // What a person did to the page, as a function that does it again.
  function kept() {
    const details = Array.from(named("details"), ([each, name]) => [name, each.open]);
    const scrolled = Array.from(named(".scroll"), ([each, name]) => [name, each.scrollLeft]);
    const focused = document.activeElement && shown().contains(document.activeElement)
      ? named(FOCUSED).get(document.activeElement) : null;
    const top = Array.from(shown().querySelectorAll("[id]")).find((each) => each.getBoundingClientRect().bottom > 0);
    const anchor = top && window.scrollY > 0 ? [top.id, top.getBoundingClientRect().top] : null;
    const at = [window.scrollX, window.scrollY];
    return () => {
      const now = found("details");
      for (const [name, open] of details) {
        const each = now.get(name);
        if (each && each.open !== open) each.open = open;
      }
      const wide = found(".scroll");
      for (const [name, left] of scrolled) {
        const each = wide.get(name);
        if (each && left) each.scrollLeft = left;
      }
      const focus = focused && found(FOCUSED).get(focused);
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
