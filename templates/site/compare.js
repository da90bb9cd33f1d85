// Two campaigns that a person picks: the rule of `compare` (runner/compare/verdicts.py) on the
// figures that stand in the page. Text is set as text alone.
(() => {
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const MISSING = "–";

function make(tag, className, ...inside) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...inside);
  return element;
}

function link(href, words) {
  const element = make("a", "", words);
  element.href = href;
  return element;
}

// A figure is its value and half the width of what it may be, in percent; null where nobody knows.
function measure(quantity, was, is) {
  if (!was || !is || was[0] <= 0) return null;
  const percent = (is[0] - was[0]) / was[0] * 100;
  const [[, a], [, b]] = [was, is];
  const both = a === null || b === null ? null : Math.hypot(a, b);
  const gain = percent * quantity.better;
  let verdict = gain > 0 ? quantity.words[1] : quantity.words[0];
  if (Math.abs(gain) <= quantity.threshold) verdict = "same";
  else if (both !== null && Math.abs(gain) <= both) verdict = "unclear";
  return { percent, both, verdict };
}

function judge(was, is, live) {
  const measures = was?.finished && is?.finished
    ? data.quantities.map((quantity, at) => measure(quantity, was.figures[at], is.figures[at]))
    : data.quantities.map(() => null);
  if (!was?.ran) {
    if (is?.ran) return ["appeared", measures];
    return [is && live ? "running" : was ? "not_ok" : "appeared", measures];
  }
  if (!(is?.ran && (live || is.ended))) return [is && live ? "running" : "vanished", measures];
  const [before, after] = [was, is].map((side) => 2 * side.well + side.finished);
  if (before > after) return ["broke", measures];
  if (before < after) return ["recovered", measures];
  const words = measures.filter(Boolean).map((each) => each.verdict);
  if (!words.length && !is.well) return ["not_ok", measures];
  return [data.verdicts.find((word) => words.includes(word)) || "same", measures];
}

const WORSE = new Set(data.worse);

function pair(was, is, each, quantity) {
  const text = (figure) => (figure
    ? figure[0].toLocaleString("en", quantity.places === null
      ? { minimumSignificantDigits: 4, maximumSignificantDigits: Math.max(4, Math.trunc(figure[0]).toString().length), useGrouping: false }
      : { maximumFractionDigits: quantity.places, useGrouping: false }) : MISSING);
  const values = make("td", "number", was || is ? `${text(was)}, ${text(is)}` : MISSING);
  if (!each) return [values, make("td", "number", MISSING)];
  const sign = each.percent < 0 ? "" : "+";
  const spread = each.both === null ? " (noise unknown)" : each.both ? ` ±${each.both.toFixed(1)}` : "";
  const word = each.verdict === "same" ? "" : ` ${each.verdict}`;
  return [values, make("td", "number", `${sign}${each.percent.toFixed(1)}%${spread}${word}`)];
}

function show() {
  const a = data.campaigns[by("a").selectedIndex];
  const b = data.campaigns[by("b").selectedIndex];
  const hash = `#a=${encodeURIComponent(a.id)}&b=${encodeURIComponent(b.id)}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
  const keys = [...new Set([...Object.keys(a.cells), ...Object.keys(b.cells)])];
  const rows = keys.map((key) => {
    const [was, is] = [a.cells[key], b.cells[key]];
    const [verdict, measures] = judge(was, is, b.live);
    return { was, is, verdict, measures, name: (is || was).name };
  });
  const rank = (row) => data.verdicts.indexOf(row.verdict);
  rows.sort((x, y) => rank(x) - rank(y));
  const head = make("tr", "", make("th", "first", "cell"), make("th", "", "verdict"));
  for (const quantity of data.quantities) {
    head.append(make("th", "number", `${quantity.title} was, is`), make("th", "number", "change"));
  }
  by("compared").tHead.replaceChildren(head);
  by("compared").tBodies[0].replaceChildren(...rows.map(({ was, is, verdict, measures, name }) => {
    const kind = WORSE.has(verdict) ? "worse" : "";
    const title = make("th", "first", link((is || was).href, name));
    title.scope = "row";
    const line = make("tr", "", title, make("td", kind, verdict));
    data.quantities.forEach((quantity, at) => {
      line.append(...pair(was?.figures[at], is?.figures[at], measures[at], quantity));
    });
    return line;
  }));
  const both = rows.filter(({ was, is }) => was && is).length;
  const worse = rows.filter(({ verdict }) => WORSE.has(verdict)).length;
  const count = data.verdicts.map((word) => [rows.filter((row) => row.verdict === word).length, word])
    .filter(([many]) => many).map(([many, word]) => `${many} ${word}`).join(", ");
  by("summary").replaceChildren(make("b", "", both
    ? `${worse ? `${worse} regression${worse > 1 ? "s" : ""}` : "no regression"}: ${count}`
    : "The two have no cell in common."));
  facts(a, b);
}

function facts(a, b) {
  const keys = [...new Set([...Object.keys(a.facts), ...Object.keys(b.facts)])];
  const told = (key) => key !== "nodes" || (key in a.facts && key in b.facts);
  const differing = keys.filter((key) => a.facts[key] !== b.facts[key] && told(key));
  const table = make("table", "facts differs");
  for (const key of differing) {
    const [was, is] = [a.facts[key], b.facts[key]].map((at) => (at === undefined ? MISSING : data.texts[at]));
    table.append(make("tr", "", make("th", "", key),
      make("td", "", make("span", "was", was), ", then ", make("strong", "", is))));
  }
  by("changed").replaceChildren(...(differing.length ? [make("h2", "", "What changed"), table] : []));
}

function restore() {
  const said = new URLSearchParams(location.hash.slice(1));
  const place = (id, other) => {
    const at = data.campaigns.findIndex((campaign) => campaign.id === said.get(id));
    return at < 0 ? other : at;
  };
  by("a").selectedIndex = place("a", Math.max(0, data.campaigns.length - 2));
  by("b").selectedIndex = place("b", data.campaigns.length - 1);
  const gone = ["a", "b"].map((id) => said.get(id)).filter((id) => id && !data.campaigns.some((each) => each.id === id));
  show();
  if (gone.length) by("summary").prepend(`This site has no campaign ${gone.join(", ")}; the newest stand here. `);
}

for (const id of ["a", "b"]) {
  by(id).append(...data.campaigns.map((campaign) => make("option", "", campaign.title)));
  by(id).addEventListener("change", show);
}
by("swap").addEventListener("click", () => {
  [by("a").selectedIndex, by("b").selectedIndex] = [by("b").selectedIndex, by("a").selectedIndex];
  show();
});
addEventListener("hashchange", restore);
restore();
})();
