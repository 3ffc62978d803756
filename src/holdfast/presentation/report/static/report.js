"use strict";
/* Sorting, filtering, printing and the page of one person. Texts become text nodes, never markup. */
(async () => {
  const ROWS = 50;
  /* A printout has all selected people, or says that it has the first of them. */
  const MOST_PRINTED = 1000;
  const VERDICTS = {
    ROBUST: ["●", "proven"],
    NOT_ROBUST: ["○", "can be broken"],
    UNKNOWN: ["◐", "undecided"],
    uncertified: ["◌", "not certified"],
    "": ["–", "no advice"],
  };
  const ORDER = Object.keys(VERDICTS);
  const $ = (id) => document.getElementById(id);

  function make(tag, attributes, ...inside) {
    const svg = ["svg", "rect", "line", "path", "text", "title"].includes(tag);
    const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "onclick") node.addEventListener("click", value);
      else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...inside.filter((part) => part !== null && part !== undefined));
    return node;
  }

  /* Numbers: the same words as on the rest of the page. */
  const tidy = (text) => text.replace("-", "−");
  const local = (value, options) => tidy(value.toLocaleString("en-US", options));
  function figure(value, digits = 3, roundingMode = "halfExpand") {
    if (value === null || value === undefined) return "–";
    if (Math.abs(value) >= 1000) return local(value, { maximumFractionDigits: 0, roundingMode });
    if (value === 0 || Math.abs(value) >= 1e-4) return local(value, { maximumSignificantDigits: digits, roundingMode });
    const options = { notation: "scientific", maximumSignificantDigits: digits, roundingMode };
    const [number, power] = value.toLocaleString("en-US", options).split("E");
    return tidy(number) + "×10" + [...power].map((sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign])).join("");
  }
  const radius = (value) => figure(value, 3, "trunc");
  /* What something is proven for is never said to be more than it is. */
  const delta = (value) => figure(value, 4, "trunc");
  /* As many digits as it takes to be told from delta: advice at the least cost reaches only just beyond it. */
  function apart(value, roundingMode) {
    const digits = [3, 4, 5, 6].find((many) => figure(value, many) !== delta(data.delta)) ?? 3;
    return figure(value, digits, roundingMode);
  }
  /* Inside Δ is never said to be beyond its size, nor outside to be within it. */
  const away = ([distance, inside]) => (inside ? figure(distance, 3, "trunc") : apart(distance, "expand"));
  const count = (value) => value.toLocaleString("en-US");
  const people = (value) => `${count(value)} ${value === 1 ? "person" : "people"}`;
  const withUnit = (text, unit) => (!unit ? text : unit === "%" || unit === "percent" ? text + "%" : `${text}\u00a0${unit}`);
  function amount(value, unit, digits = 6) {
    if (value === null) return "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value === "string") return value;
    return withUnit(local(value, { maximumFractionDigits: digits }), unit);
  }

  async function load() {
    const node = $("data");
    if (node.dataset.encoding === "json") return JSON.parse(node.textContent);
    const bytes = Uint8Array.from(atob(node.textContent), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  /* Any table that is on the page as a whole: a click on a head sorts it. */
  function sortable(table) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const cell = (row, column) => [...row.cells].find((one, i) => i === column && one.colSpan === 1);
    const value = (row, column) => {
      const found = cell(row, column);
      if (!found) return null;
      const text = found.dataset.value ?? found.textContent.trim();
      if (text === "" || text === "None") return null;
      return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
    };
    heads.forEach((head, column) => {
      const numeric = [...body.rows].some((row) => typeof value(row, column) === "number");
      sortButton(head, heads, numeric, (sign) => {
        const rows = [...body.rows].sort((a, b) => compare(value(a, column), value(b, column), sign));
        body.append(...rows);
      });
    });
  }

  const collator = new Intl.Collator("en", { numeric: true });
  /* What is missing comes last, whichever way the others are turned. */
  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b));
  }

  function sortButton(head, heads, downFirst, sort) {
    const button = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const next = now ? (now === "ascending" ? "descending" : "ascending") : downFirst ? "descending" : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", next);
      sort(next === "ascending" ? 1 : -1);
    });
  }

  document.querySelectorAll("table.sortable").forEach(sortable);
  currentSection();

  let data;
  try {
    data = await load();
  } catch {
    const sorry = "This browser cannot unpack the table of people; a newer one can.";
    $("everyone").parentElement.before(make("p", { class: "empty", role: "status" }, sorry));
    return;
  }
  const everyone = data.keys.map((_, i) => i);
  const kind = everyone.map((i) => (data.after[i] && !data.verdicts[i] ? "uncertified" : data.verdicts[i]));
  const words = (i) =>
    data.after[i] ? data.advice[i].map((code) => data.texts.advice[code]).join("; ") : data.texts.reasons[data.reasons[i]];
  const reasons = (i) => (data.against[i] || []).map(([, said, , stays]) => [data.texts.against[said], data.texts.against[stays]]);
  let searched = null;
  const state = { page: 0, rows: everyone, sort: null };

  const SORTS = {
    key: (i) => data.keys[i],
    verdict: (i) => ORDER.indexOf(kind[i]),
    radius: (i) => data.radii[i],
    changes: (i) => (data.after[i] ? data.advice[i].length : null),
  };

  function verdict(i) {
    const [sign, text] = VERDICTS[kind[i]];
    return make("span", { class: "verdict" }, make("span", { class: "sign", "aria-hidden": "true" }, sign), " ", text);
  }

  /* How far the proof reaches, on the scale of the whole page. */
  function lasts(i) {
    const words = data.texts.lasts[data.lasts[i]];
    if (data.radii[i] === null) return words || "–";
    const part = `${(100 * Math.min(data.radii[i] / data.gauge[0], 1)).toFixed(2)}%`;
    return make("span", { class: "with-bar" },
      make("svg", { class: "inline-bar", width: "100%", height: 12, "aria-hidden": "true", focusable: "false" },
        make("rect", { class: "ground", width: "100%", height: 12 }), make("rect", { class: "full", width: part, height: 12 })),
      make("span", { class: "number" }, words));
  }

  function rows(people) {
    $("everyone").tBodies[0].replaceChildren(
      ...people.map((i) =>
        make("tr", {},
          make("th", { scope: "row" }, make("a", { href: `#person=${i}` }, data.keys[i])),
          make("td", {}, verdict(i)),
          data.gauge ? make("td", { class: "lasts" }, lasts(i)) : null,
          make("td", { class: "number roomy" }, data.after[i] ? String(data.advice[i].length) : "–"),
          make("td", { class: "advice roomy" }, make("div", {}, words(i))),
        ),
      ),
    );
    if (!people.length) {
      $("everyone").tBodies[0].append(make("tr", {}, make("td", { colspan: 5 }, "No person matches.")));
    }
  }

  function draw() {
    const last = Math.max(Math.ceil(state.rows.length / ROWS) - 1, 0);
    state.page = Math.min(Math.max(state.page, 0), last);
    rows(state.rows.slice(state.page * ROWS, (state.page + 1) * ROWS));
    $("pages").textContent = `page ${count(state.page + 1)} of ${count(last + 1)}, ${ROWS} people on each`;
    $("earlier").disabled = state.page === 0;
    $("later").disabled = state.page === last;
    $("pager").hidden = last === 0;
  }

  /* A person on one sheet of A4: smaller where it takes that, as long as it can be read. */
  function fit(article) {
    document.documentElement.classList.add("sheet");
    article.style.width = "180mm";
    const room = (265 * 96) / 25.4;
    const height = article.getBoundingClientRect().height;
    article.style.width = "";
    if (height > room) article.style.zoom = Math.max(room / height, 0.6);
  }

  /* On paper: everyone who is selected, and every fold open; or one person, whose fold for auditors stays as it is. */
  let folds = [];
  addEventListener("beforeprint", () => {
    if (!$("person").hidden) {
      fit($("person"));
      return;
    }
    folds = [...document.querySelectorAll("details:not([open])")];
    folds.forEach((fold) => { fold.open = true; });
    const shown = state.rows.slice(0, MOST_PRINTED);
    const some = state.rows.length < everyone.length ? `${count(state.rows.length)} selected people of ${count(everyone.length)}` : `${people(everyone.length)}`;
    $("extract").textContent = shown.length < state.rows.length
      ? `This printout has the first ${count(shown.length)} of ${some}. Filter the list to print the others.`
      : state.rows.length < everyone.length ? `This printout has ${some}.` : `This printout has all ${some}.`;
    $("extract").hidden = false;
    rows(shown);
  });
  addEventListener("afterprint", () => {
    folds.forEach((fold) => { fold.open = false; });
    folds = [];
    document.documentElement.classList.remove("sheet");
    $("person").style.zoom = "";
    $("extract").hidden = true;
    draw();
  });

  function select() {
    const text = $("find").value.trim().toLowerCase();
    const only = $("only").value;
    if (text && !searched) searched = everyone.map((i) => `${data.keys[i]} ${words(i)} ${reasons(i).flat().join(" ")}`.replaceAll("\u00a0", " ").toLowerCase());
    /* A whole key is one person; other texts match anywhere. */
    const exact = everyone.some((i) => data.keys[i].toLowerCase() === text);
    const fits = (i) => !text || (exact ? data.keys[i].toLowerCase() === text : searched[i].includes(text));
    state.rows = everyone.filter((i) => (only === "*" || kind[i] === only) && fits(i));
    if (state.sort) {
      const value = SORTS[state.sort.by];
      state.rows.sort((a, b) => compare(value(a), value(b), state.sort.sign) || a - b);
    }
    state.page = 0;
    const all = state.rows.length === everyone.length;
    $("counted").textContent = all
      ? people(everyone.length)
      : `${count(state.rows.length)} of ${count(everyone.length)} people`;
    draw();
  }

  const heads = [...$("everyone").tHead.rows[0].cells];
  heads.filter((head) => head.dataset.sort).forEach((head) =>
    sortButton(head, heads, false, (sign) => {
      state.sort = { by: head.dataset.sort, sign };
      select();
    }),
  );
  $("filters").hidden = false;
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("find").addEventListener("input", select);
  $("only").addEventListener("change", select);
  $("earlier").addEventListener("click", () => { state.page -= 1; draw(); });
  $("later").addEventListener("click", () => { state.page += 1; draw(); });

  /* One person. */
  const title = document.title;
  let place = null;

  function statement(i) {
    const once = "once the advice is followed";
    const says = {
      ROBUST: ["Proven.", `The model ${data.gives} ${once}. So does ${data.models.replace(/^today's model and /, "")}.`],
      NOT_ROBUST: ["Can be broken.", `Today’s model ${data.gives} ${once}, but a plausible model does not. Do not hand this out as a promise.`],
      UNKNOWN: ["Undecided.", "Neither a proof nor a model that breaks the promise was found. Do not treat it as proven."],
      uncertified: ["Not certified.", `Today’s model ${data.gives} ${once}; nothing was proven about other models.`],
      "": ["No advice.", words(i) || "No reason was given."],
    }[kind[i]];
    const strong = kind[i] === "ROBUST";
    const sign = make("span", { class: "sign", "aria-hidden": "true" }, VERDICTS[kind[i]][0]);
    return make("p", { class: strong ? "statement" : "statement weak" }, sign, " ", make("strong", {}, says[0]), " ", says[1]);
  }

  const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
  const percent = (unit) => (unit === "%" || unit === "percent" ? unit : "");

  /* Today's decision, and the probability behind it. */
  function decision(i) {
    const [today, then] = data.chances[i] || ["", ""];
    const takes = data.threshold ? `; a yes takes ${local(data.threshold, { style: "percent", maximumFractionDigits: 2 })}` : "";
    const parts = [];
    if (today) parts.push(`The model gives a probability of ${today} for ${data.wanted}${takes}.`);
    if (then) parts.push(`Once the advice is followed, it gives ${then}.`);
    return make("p", { class: "says" }, "Decision today: ", make("strong", {}, data.accepted[i] ? "yes" : "no"), ". ", parts.join(" "));
  }

  function why(i) {
    const list = reasons(i).map(([sentence, stays]) => make("li", {}, sentence, stays ? " " : null, stays ? make("span", { class: "quiet stays" }, stays) : null));
    return list.length ? [make("h2", {}, "Why, in the words of the letter"), make("ol", { class: "steps" }, ...list)] : [];
  }

  /* How far the proof reaches, against the updates that were measured, or against what was promised. */
  function gauge(i) {
    if (data.radii[i] === null || !data.gauge) return [];
    const [end, marks] = data.gauge;
    const own = data.radii[i];
    const at = (value) => `${((100 * Math.min(value, end)) / end).toFixed(2)}%`;
    const said = `proven to here: ${data.texts.lasts[data.lasts[i]]}`;
    const top = 16 * marks.length;
    const parts = [
      make("rect", { class: "track", x: 0, y: top + 6, width: "100%", height: 16 }),
      make("rect", { class: "proven", x: 0, y: top + 6, width: at(own), height: 16 }),
    ];
    marks.forEach(([value, text], row) => {
      const y = 16 * row + 12;
      parts.push(make("line", { class: "limit", x1: at(value), x2: at(value), y1: y - 10, y2: top + 26 }));
      parts.push(make("text", { x: at(value), dx: 5, y }, text));
    });
    const side = own / end > 0.75 ? "end" : own / end < 0.25 ? "start" : "middle";
    parts.push(make("line", { class: "counter", x1: at(own), x2: at(own), y1: top + 2, y2: top + 28 }));
    parts.push(make("text", { x: at(own), y: top + 42, "text-anchor": side }, own > end ? `${said} (beyond this scale)` : said));
    return [make("figure", { class: "ruler" }, make("svg", { role: "img", "aria-label": said, height: top + 48 }, ...parts))];
  }

  /* What changes as a table; what stays as one paragraph. */
  function advice(i) {
    const after = new Map();
    const flat = data.after[i] || [];
    for (let k = 0; k < flat.length; k += 2) after.set(flat[k], flat[k + 1]);
    const all = data.columns.map((_, column) => column);
    const rows = all.filter((column) => after.has(column)).map((column) => {
      const [label, unit, moves] = data.columns[column];
      const old = before(column, i);
      const now = after.get(column);
      const digits = amount(old) === amount(now) ? 17 : 6;
      const step = typeof old === "number" && typeof now === "number" ? now - old : null;
      const by = step === null ? "–" : (step > 0 ? "+" : "") + withUnit(figure(step, 4), percent(unit) ? "points" : unit);
      return make("tr", {},
        make("th", { scope: "row" }, ...breakable(label), moves ? make("span", { class: "quiet" }, moves) : null),
        make("td", { class: "side" }, amount(old, unit, digits)),
        make("td", { class: "side goal" }, amount(now, unit, digits)),
        make("td", { class: "side" }, by));
    });
    const staying = all.filter((column) => !after.has(column));
    const still = staying.map((column) => `${data.columns[column][0]} ${amount(before(column, i), data.columns[column][1])}`);
    const passing = staying.filter((column) => data.columns[column][5]).map((column) => data.columns[column][0]);
    const values = kind[i] === "ROBUST" ? "The proof covers the values shown" : "The values shown were checked";
    if (data.unlisted[1]) passing.push("some that are not listed");
    const notes = !rows.length ? [] : [data.unlisted[0] ? "Details that are not listed stay as they are too." : "",
      passing.length ? `These change by themselves as time passes: ${passing.join(", ")}. ${values}: check again when one has changed.` : ""];
    const remark = data.after[i] ? data.texts.reasons[data.reasons[i]] : "";
    const parts = [];
    if (rows.length) {
      parts.push(make("h2", {}, "What to do"),
        table("What to do", [["What"], ["Today", "number"], ["Goal", "number"], ["Change", "number"]], rows));
    }
    if (remark) parts.push(make("p", { class: "empty" }, `Remark: ${remark}`));
    if (still.length) parts.push(make("p", { class: "caption still" }, `${rows.length ? "Stays as it is" : "Today"}: ${still.join(" · ")}.`));
    if (notes.join("")) parts.push(make("p", { class: "caption still notes" }, notes.filter(Boolean).join(" ")));
    return parts;
  }

  function otherWays(i) {
    const ways = data.others[i] || [];
    if (!ways.length) return [];
    const items = ways.map(([name, codes]) => make("li", {}, make("strong", {}, capital(name)), ": ",
      codes.map((code) => data.texts.advice[code]).join("; "), "."));
    return [make("h2", {}, "Other proven ways"), make("ul", { class: "ways-listed" }, ...items)];
  }

  function letter(i) {
    if (!data.letters[i]) return [];
    return [make("h2", {}, "Letter"), make("p", { class: "says" }, make("a", { href: data.letters[i] }, "The letter to this person"))];
  }

  /* A name may go on in the next line where its words meet. */
  const breakable = (name) => name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=_)(?=[^_])/).flatMap((word, k) => (k ? [make("wbr"), word] : [word]));

  const before = (column, i) => {
    const values = data.before[column];
    return Array.isArray(values) ? values[i] : values.texts[values.codes[i]];
  };

  function table(label, heads, rows) {
    const cells = heads.map(([text, style]) => make("th", { scope: "col", class: style }, text));
    return make("div", { class: "wide", role: "region", tabindex: "0", "aria-label": label },
      make("table", {}, make("caption", { class: "unseen" }, label), make("thead", {}, make("tr", {}, ...cells)),
        make("tbody", {}, ...rows)));
  }

  /* Everything in the model's own numbers. */
  function auditors(i) {
    const facts = [];
    const add = (name, value, words) => facts.push(make("div", {}, make("dt", {}, name), make("dd", {}, value, words ? ` (${words})` : "")));
    if (data.radii[i] !== null) {
      add("Certified radius", apart(data.radii[i], "trunc"), data.delta === null ? "" : `${data.symbol} is ${data.deltas}`);
    }
    if (data.worst[i] !== null) add("Worst margin", figure(data.worst[i], 3, "floor"), "over all of Δ; above 0 is a yes");
    if (data.costs[i] !== null) {
      const none = data.gaps[i] <= 0;
      add("Cost", figure(data.costs[i]), data.gaps[i] === null ? "" : none ? "proven cheapest" : `at most ${figure(data.gaps[i], 3, "expand")} above the cheapest`);
    }
    if (data.kept[i] !== undefined && data.kept[i] !== null) add("Kept by", `${count(data.kept[i])} of ${count(data.refits)} updated models`);
    const won = (data.against[i] || []).map(([column, , margin]) => {
      const [label, , , code, reason] = data.columns[column];
      return `${reason || label} ${figure(margin)}${code ? ` (code ${code})` : ""}`;
    });
    if (won.length) add("Reasons, by margin won", won.join("; "));
    if (data.certificates[i]) add("Certificate", data.certificates[i]);
    const parts = [facts.length ? make("dl", { class: "facts" }, ...facts) : null, ...counterModel(i)].filter(Boolean);
    if (!parts.length) return [];
    return [make("details", {}, make("summary", {}, make("h2", {}, "For auditors")), ...parts)];
  }

  function counterModel(i) {
    const counter = data.counters.rows[i];
    if (!counter) return data.after[i] ? [make("p", { class: "caption" }, "No counter-model was computed for this person.")] : [];
    const [, inside, today, there, total, flat, closest] = counter;
    const lead = (data.fall ? `A model with ${data.fall.replace("{}", away(counter))}` : `A model at a distance of ${away(counter)} from today’s`) + " gives another decision" +
      (data.delta === null ? "" : inside ? `. It lies in Δ (${data.symbol}\u00a0=\u00a0${data.deltas}), so it breaks the promise`
        : `. It lies outside Δ (${data.symbol}\u00a0=\u00a0${data.deltas}), so the proof does not cover it`) +
      `. The margin is ${figure(today)} today and ${figure(there)} there; below 0 is a no.`;
    const rows = [];
    for (let k = 0; k < flat.length; k += 3) {
      const [where, now] = data.counters.parameters[flat[k]];
      rows.push(make("tr", {}, make("th", { scope: "row" }, where), make("td", { class: "number" }, figure(now, 4)),
        make("td", { class: "number" }, figure(flat[k + 1], 4)), make("td", { class: "number" }, figure(flat[k + 2]))));
    }
    const label = "Its changes that cost this person most";
    const heads = [[label], ["Today", "number"], ["There", "number"], ["Effect on the margin", "number"]];
    const parts = [make("h3", {}, closest ? "The model that comes closest to breaking it" : "A model that breaks it"), make("p", { class: "caption" }, lead)];
    if (rows.length) parts.push(table(label, heads, rows));
    if (total > rows.length) parts.push(make("p", { class: "caption" }, `${count(rows.length)} of ${count(total)} changes are shown.`));
    return parts;
  }

  function showPerson(i) {
    const link = (to, text, label) => make("a", { href: `#person=${to}`, "aria-label": label }, text);
    const at = state.rows.indexOf(i);
    const rows = at < 0 ? everyone : state.rows;
    const now = at < 0 ? i : at;
    const ways = make("p", { class: "ways" }, make("a", { href: "#people", id: "back" }, "← All people"),
      now > 0 ? link(rows[now - 1], "Previous", "Previous person") : null,
      now < rows.length - 1 ? link(rows[now + 1], "Next", "Next person") : null,
      make("button", { type: "button", class: "button apart", onclick: () => print() }, "Print this person"));
    const heading = make("h1", { id: "person-heading", tabindex: "-1" }, `Person ${data.keys[i]}`);
    const article = $("person");
    article.replaceChildren(
      ...[ways, make("p", { class: "eyebrow" }, `Number ${count(i + 1)} of ${count(everyone.length)}`), heading, decision(i),
        ...why(i), ...advice(i), make("h2", {}, "The promise"), statement(i), ...gauge(i), ...otherWays(i), ...letter(i), ...auditors(i)].filter(Boolean),
    );
    article.hidden = false;
    document.querySelectorAll(".report").forEach((node) => { node.hidden = true; });
    document.title = `${data.keys[i]} – ${title}`;
    scrollTo({ top: 0, behavior: "instant" });
    heading.focus({ preventScroll: true });
  }

  function showReport(anchor) {
    const article = $("person");
    if (article.hidden) return;
    article.hidden = true;
    article.replaceChildren();
    document.querySelectorAll(".report").forEach((node) => { node.hidden = false; });
    document.title = title;
    if (place && (anchor === "" || anchor === "people")) {
      scrollTo({ top: place.top, behavior: "instant" });
      const link = document.querySelector(`#everyone a[href="#person=${place.person}"]`);
      (link || $("main")).focus({ preventScroll: true });
    } else {
      const target = anchor && document.getElementById(anchor);
      if (target) target.scrollIntoView({ behavior: "instant" });
    }
  }

  function route() {
    const found = /^#person=(\d+)$/.exec(location.hash);
    const i = found ? Number(found[1]) : -1;
    if (found && i < everyone.length) {
      if ($("person").hidden) place = { top: scrollTop, person: i };
      showPerson(i);
    } else {
      showReport(location.hash.slice(1));
      const fold = location.hash === "#auditors" && document.querySelector("#auditors details");
      if (fold) fold.open = true;
    }
  }

  /* The browser has scrolled to the new anchor by the time the hash has changed; this is where it was before. */
  let scrollTop = scrollY;
  addEventListener("scroll", () => { if ($("person").hidden) scrollTop = scrollY; }, { passive: true });
  addEventListener("hashchange", route);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("person").hidden) location.hash = "people";
  });

  /* Where the reader is, in the contents. */
  function currentSection() {
    if (!("IntersectionObserver" in window)) return;
    const links = new Map([...document.querySelectorAll(".contents a")].map((a) => [a.hash.slice(1), a]));
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        links.forEach((a) => a.removeAttribute("aria-current"));
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    }, { rootMargin: "-20% 0px -70% 0px" });
    document.querySelectorAll("#report > section").forEach((section) => seen.observe(section));
  }

  select();
  document.documentElement.dataset.ready = "yes";
  route();
})();
