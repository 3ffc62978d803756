"use strict";
/* Sorting, filtering, tooltips and the page of one person. Texts become text nodes, never markup. */
(async () => {
  const ROWS = 50;
  const VERDICTS = {
    ROBUST: ["●", "proven to survive"],
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
  const withUnit = (text, unit) => (!unit ? text : unit === "%" || unit === "percent" ? text + "%" : `${text} ${unit}`);
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

  /* Tooltips: the mark under the pointer or near it; with the keyboard, arrows walk from mark to mark. */
  function tooltips(plot) {
    const marks = () => [...plot.querySelectorAll("[data-tip]")].filter((mark) => mark.getClientRects().length);
    const tip = $("tip");
    let lit = null;
    function show(mark, speak) {
      if (lit) lit.classList.remove("lit");
      lit = mark;
      tip.hidden = !mark;
      if (!mark) return;
      mark.classList.add("lit");
      tip.textContent = mark.dataset.tip;
      if (speak) $("said").textContent = mark.dataset.tip;
      put(mark);
    }
    function put(mark) {
      const box = mark.getBoundingClientRect();
      const own = tip.getBoundingClientRect();
      const left = box.left + box.width / 2 - own.width / 2;
      const above = box.top - own.height - 8;
      tip.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - own.width - 8))}px`;
      tip.style.top = `${above > 4 ? above : box.bottom + 8}px`;
    }
    function near(event) {
      const under = event.target.closest("[data-tip]");
      if (under) return under;
      let best = null;
      let least = 28;
      for (const mark of marks()) {
        const box = mark.getBoundingClientRect();
        const far = Math.hypot(event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2);
        if (far < least) [best, least] = [mark, far];
      }
      return best;
    }
    const open = (mark) => {
      if (mark && mark.dataset.person !== undefined) location.hash = `person=${mark.dataset.person}`;
    };
    const title = plot.querySelector("title").textContent;
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `${title}. Arrow keys read the values one by one.`);
    plot.addEventListener("pointermove", (event) => show(near(event)));
    plot.addEventListener("pointerleave", () => show(null));
    plot.addEventListener("click", (event) => open(event.target.closest("[data-person]")));
    plot.addEventListener("focus", () => plot.matches(":focus-visible") && show(marks()[0] ?? null, true));
    plot.addEventListener("blur", () => show(null));
    plot.addEventListener("keydown", (event) => {
      const all = marks();
      const now = all.indexOf(lit);
      const to = {
        ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: all.length - 1,
      }[event.key];
      if (event.key === "Escape") show(null);
      else if (event.key === "Enter") open(lit);
      else if (to !== undefined && all.length) {
        event.preventDefault();
        show(all[(to + all.length) % all.length], true);
      }
    });
    /* Focus scrolls a plot into view: the tooltip stays with its mark. */
    addEventListener("scroll", () => lit && put(lit), { passive: true });
  }

  document.querySelectorAll("table.sortable").forEach(sortable);
  document.querySelectorAll(".plot").forEach(tooltips);
  currentSection();

  let data;
  try {
    data = await load();
  } catch {
    $("said").textContent = "This browser cannot unpack the table of people; a newer one can.";
    $("everyone").parentElement.before(make("p", { class: "empty" }, $("said").textContent));
    return;
  }
  const everyone = data.keys.map((_, i) => i);
  const kind = everyone.map((i) => (data.after[i] && !data.verdicts[i] ? "uncertified" : data.verdicts[i]));
  const words = (i) =>
    data.after[i] ? data.advice[i].map((code) => data.texts.advice[code]).join("; ") : data.texts.reasons[data.reasons[i]];
  let searched = null;
  const state = { page: 0, rows: everyone, sort: null };

  const SORTS = {
    key: (i) => data.keys[i],
    verdict: (i) => ORDER.indexOf(kind[i]),
    cost: (i) => data.costs[i],
    radius: (i) => data.radii[i],
    changes: (i) => (data.after[i] ? data.advice[i].length : null),
  };

  function verdict(i) {
    const [sign, text] = VERDICTS[kind[i]];
    return make("span", { class: "verdict" }, make("span", { class: "sign", "aria-hidden": "true" }, sign), " ", text);
  }

  function draw() {
    const last = Math.max(Math.ceil(state.rows.length / ROWS) - 1, 0);
    state.page = Math.min(Math.max(state.page, 0), last);
    const shown = state.rows.slice(state.page * ROWS, (state.page + 1) * ROWS);
    $("everyone").tBodies[0].replaceChildren(
      ...shown.map((i) =>
        make("tr", {},
          make("th", { scope: "row" }, make("a", { href: `#person=${i}` }, data.keys[i])),
          make("td", {}, verdict(i)),
          make("td", { class: "number" }, figure(data.costs[i])),
          make("td", { class: "number" }, radius(data.radii[i])),
          make("td", { class: "number roomy" }, data.after[i] ? String(data.advice[i].length) : "–"),
          make("td", { class: "advice roomy" }, make("div", {}, words(i))),
        ),
      ),
    );
    if (!shown.length) {
      $("everyone").tBodies[0].append(make("tr", {}, make("td", { colspan: 6 }, "Nobody matches.")));
    }
    $("pages").textContent = `page ${count(state.page + 1)} of ${count(last + 1)}, ${ROWS} people on each`;
    $("earlier").disabled = state.page === 0;
    $("later").disabled = state.page === last;
    $("pager").hidden = last === 0;
  }

  function select() {
    const text = $("find").value.trim().toLowerCase();
    const only = $("only").value;
    if (text && !searched) searched = everyone.map((i) => `${data.keys[i]} ${words(i)}`.toLowerCase());
    state.rows = everyone.filter((i) => (only === "*" || kind[i] === only) && (!text || searched[i].includes(text)));
    if (state.sort) {
      const value = SORTS[state.sort.by];
      state.rows.sort((a, b) => compare(value(a), value(b), state.sort.sign) || a - b);
    }
    state.page = 0;
    const all = state.rows.length === everyone.length;
    $("counted").textContent = all
      ? `${count(everyone.length)} ${everyone.length === 1 ? "person" : "people"}`
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
    const plausible = data.delta === null ? "Δ" : `Δ (${data.symbol}\u00a0=\u00a0${data.deltas})`;
    const says = {
      ROBUST: [data.symbol === "margin" ? "Clear by the margin." : "Proven to survive.", `Every model in ${plausible} gives the promised answer once this is done.`],
      NOT_ROBUST: ["Can be broken.", `At least one model in ${plausible} gives another answer even when all of it is done.`],
      UNKNOWN: ["Undecided.", `Neither a proof nor a counter-model was found for ${plausible}. Do not treat it as proven.`],
      uncertified: ["Not certified.", "Today’s model gives the promised answer; nothing was proven about retrained ones."],
      "": ["No advice.", words(i) || "No reason was given."],
    }[kind[i]];
    const strong = kind[i] === "ROBUST";
    const sign = make("span", { class: "sign", "aria-hidden": "true" }, VERDICTS[kind[i]][0]);
    return make("p", { class: strong ? "statement" : "statement weak" }, sign, " ", make("strong", {}, says[0]), " ", says[1]);
  }

  function keyFigures(i) {
    const entries = [];
    const [today, then] = data.chances[i] || ["", ""];
    const from = data.threshold ? `; it takes ${local(data.threshold, { style: "percent", maximumFractionDigits: 2 })}` : "";
    if (today) entries.push(["Probability of a yes", then || today, (then ? `once it is done; ${today} today` : "today") + from]);
    if (data.costs[i] !== null) entries.push(["Cost", figure(data.costs[i]), data.cost ? data.cost[0].toLowerCase() + data.cost.slice(1) : "all changes together"]);
    if (data.gaps[i] !== null) {
      const none = data.gaps[i] <= 0;
      entries.push(["Gap", none ? "0" : figure(data.gaps[i], 3, "expand"), none ? "proven cheapest" : "at most above the cheapest"]);
    }
    if (data.radii[i] !== null) {
      entries.push(["Certified radius", apart(data.radii[i], "trunc"), data.delta === null ? "" : `${data.symbol} is ${data.deltas}`]);
    }
    if (data.kept[i] !== null) entries.push(["Kept by", `${count(data.kept[i])} of ${count(data.refits)}`, "models retrained in fact"]);
    if (data.worst[i] !== null) entries.push(["Worst margin", figure(data.worst[i], 3, "floor"), "over all of Δ; above 0 holds"]);
    if (!entries.length) return null;
    return make("dl", { class: "figures" }, ...entries.map(([name, number, beside]) =>
      make("div", {}, make("dt", {}, name),
        make("dd", {}, make("span", { class: "large" }, number), beside ? make("span", { class: "quiet" }, beside) : null)),
    ));
  }

  /* How far the advice reaches, and where delta and the counter-model lie. */
  function ruler(i) {
    if (data.radii[i] === null) return null;
    const counter = data.counters.rows[i];
    const marks = [
      data.delta === null ? null : [data.delta, `${data.symbol}\u00a0=\u00a0${delta(data.delta)}`, "limit promised"],
      data.calibrated === null || (data.delta !== null && data.calibrated <= data.delta && delta(data.calibrated) === delta(data.delta))
        ? null : [data.calibrated, `calibrated ${delta(data.calibrated)}`, "limit calibrated"],
    ].filter(Boolean);
    const end = 1.2 * Math.max(data.radii[i], counter ? counter[0] : 0, ...marks.map((mark) => mark[0]), 1e-12);
    const at = (value) => `${((100 * value) / end).toFixed(2)}%`;
    marks.sort((a, b) => a[0] - b[0]);
    const flip = marks.length > 0 && marks[marks.length - 1][0] / end > 0.6;
    const said = `Proven up to ${apart(data.radii[i], "trunc")}` + marks.map((mark) => `; ${mark[1]}`).join("") +
      (counter ? `; the nearest counter-model found is ${away(counter)} away` : "");
    const parts = [
      make("rect", { class: "track", x: 0, y: 36, width: "100%", height: 20 }),
      make("rect", { class: "proven", x: 0, y: 36, width: at(data.radii[i]), height: 20 }),
    ];
    marks.forEach(([value, text, style], row) => {
      const y = (flip ? marks.length - 1 - row : row) * 16 + (marks.length > 1 ? 12 : 28);
      parts.push(make("line", { class: style, x1: at(value), x2: at(value), y1: y - 9, y2: 62 }));
      parts.push(make("text", { x: at(value), dx: flip ? -5 : 5, y, "text-anchor": flip ? "end" : "start" }, text));
    });
    if (counter) {
      parts.push(make("line", { class: "counter", x1: at(counter[0]), x2: at(counter[0]), y1: 32, y2: 66 }));
      const text = `counter-model at ${away(counter)}`;
      parts.push(make("text", { x: at(counter[0]), y: 84, "text-anchor": counter[0] / end > 0.75 ? "end" : counter[0] / end < 0.25 ? "start" : "middle" }, text));
    } else {
      parts.push(make("text", { x: 0, y: 84 }, `proven up to ${apart(data.radii[i], "trunc")}`));
    }
    return make("figure", { class: "ruler" }, make("svg", { role: "img", "aria-label": said }, ...parts),
      make("figcaption", {}, `The bar is how far ${data.free} with the advice still proven to hold.`));
  }

  function changes(i) {
    if (!data.after[i]) return [];
    if (!data.advice[i].length) return [];
    const list = data.advice[i].map((code) => make("li", {}, data.texts.advice[code]));
    const remark = data.texts.reasons[data.reasons[i]];
    return [make("h2", {}, "What to change"), make("ul", { class: "steps" }, ...list),
      remark ? make("p", { class: "empty" }, `Remark: ${remark}`) : null];
  }

  /* What counts against the person, with codes where columns have them. */
  function against(i) {
    const rows = (data.against[i] || []).map(([column, usual, margin]) => {
      const [label, unit, , code, reason] = data.columns[column];
      const percent = unit === "%" || unit === "percent" ? unit : "";
      return make("tr", {},
        make("th", { scope: "row" }, ...breakable(reason || label), reason ? make("span", { class: "quiet" }, `${label} · code ${code}`) : null),
        make("td", { class: "side" }, amount(before(column, i), percent)),
        make("td", { class: "side" }, amount(usual, percent)),
        make("td", { class: "number" }, figure(margin)));
    });
    if (!rows.length) return [];
    const heads = [["What"], ["Today", "number"], ["Accepted people", "number"], ["Margin won", "number"]];
    return [make("h2", {}, "What counts against them"),
      make("p", { class: "caption" }, (data.against[i][0][3]
        ? "Each detail by itself, set to the usual value of accepted people (without a table of people: to the middle of its range), as far as this person can get there."
        : "Nothing that this person can change counts by itself. These are details that they cannot change, each set to the usual value of accepted people (without a table of people: to the middle of its range).") +
        " The margin grows by so much; above 0 is a yes."),
      table("What counts against them", heads, [["", rows]])];
  }

  function otherWays(i) {
    const ways = data.others[i] || [];
    if (!ways.length) return [];
    const items = ways.map(([name, kind, codes]) => make("li", {}, make("strong", {}, name), ": ",
      codes.map((code) => data.texts.advice[code]).join("; "), kind ? make("span", { class: "quiet" }, ` (${VERDICTS[kind][1]})`) : null));
    return [make("h2", {}, "Other ways"), make("ul", { class: "ways-listed" }, ...items)];
  }

  function papers(i) {
    const facts = [];
    if (data.letters[i]) facts.push(["Letter", make("a", { href: data.letters[i] }, "The letter to this person")]);
    if (data.certificates[i]) facts.push(["Certificate", data.certificates[i]]);
    if (!facts.length) return [];
    return [make("h2", {}, "Papers"), make("dl", { class: "facts" }, ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))))];
  }

  /* A name may go on in the next line where its words meet. */
  const breakable = (name) => name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=_)(?=[^_])/).flatMap((word, k) => (k ? [make("wbr"), word] : [word]));

  const before = (column, i) => {
    const values = data.before[column];
    return Array.isArray(values) ? values[i] : values.texts[values.codes[i]];
  };

  /* Groups of rows, each under its name where it has one. */
  function table(label, heads, groups) {
    const cells = heads.map(([text, style]) => make("th", { scope: "col", class: style }, text));
    const bodies = groups.filter(([, rows]) => rows.length).map(([name, rows]) =>
      make("tbody", {}, name ? make("tr", { class: "group" }, make("th", { scope: "rowgroup", colspan: heads.length }, name)) : null, ...rows));
    return make("div", { class: "wide", role: "region", tabindex: "0", "aria-label": label },
      make("table", {}, make("caption", { class: "unseen" }, label), make("thead", {}, make("tr", {}, ...cells)), ...bodies));
  }

  function beforeAfter(i) {
    const after = new Map();
    const flat = data.after[i] || [];
    for (let k = 0; k < flat.length; k += 2) after.set(flat[k], flat[k + 1]);
    const row = (column) => {
      const [label, unit, moves] = data.columns[column];
      const percent = unit === "%" || unit === "percent" ? unit : "";
      const old = before(column, i);
      const changed = after.has(column);
      const now = changed ? after.get(column) : old;
      const digits = changed && amount(old) === amount(now) ? 17 : 6;
      const step = changed && typeof old === "number" && typeof now === "number" ? now - old : null;
      const by = step === null ? "–" : (step > 0 ? "+" : "") + withUnit(figure(step, 4), percent && "points");
      const about = [percent ? "" : unit, moves].filter(Boolean).join(" · ");
      return make("tr", { class: changed ? "changed" : null },
        make("th", { scope: "row" }, ...breakable(label), about ? make("span", { class: "quiet" }, about) : null),
        make("td", { class: "side" }, amount(old, percent, digits)),
        data.after[i] ? make("td", { class: "side" }, amount(now, percent, digits)) : null,
        data.after[i] ? make("td", { class: "side" }, by) : null);
    };
    const all = data.columns.map((_, column) => column);
    if (!all.length) return [];
    if (!data.after[i]) return [make("h2", {}, "Today"), table("Today", [["What"], ["Today", "number"]], [["", all.map(row)]])];
    const groups = [
      ["● To change", all.filter((column) => after.has(column)).map(row)],
      ["Stays as it is", all.filter((column) => !after.has(column)).map(row)],
    ];
    const heads = [["What"], ["Before", "number"], ["After", "number"], ["Change", "number"]];
    return [make("h2", {}, "Before and after"), table("Before and after", heads, groups)];
  }

  function counterModel(i) {
    const counter = data.counters.rows[i];
    if (!counter) {
      if (!data.after[i]) return [];
      return [make("h2", {}, "A model that breaks it"), make("p", { class: "empty" }, "No counter-model was computed for this person.")];
    }
    const [, inside, today, there, total, flat, closest] = counter;
    const lead = (data.fall ? `A model with ${data.fall.replace("{}", away(counter))}` : `A model at a distance of ${away(counter)} from today’s`) + " gives another answer" +
      (data.delta === null ? "." : inside ? `: it lies in Δ (${data.symbol}\u00a0=\u00a0${data.deltas}), so it is a plausible one.`
        : `: it lies outside Δ (${data.symbol}\u00a0=\u00a0${data.deltas}), so the proof says nothing about it.`);
    const margins = make("dl", { class: "figures light" },
      data.fall ? null : make("div", {}, make("dt", {}, "Distance"), make("dd", {}, make("span", { class: "large" }, away(counter)), make("span", { class: "quiet" }, "from today’s model"))),
      make("div", {}, make("dt", {}, "Margin today"), make("dd", {}, make("span", { class: "large" }, figure(today)), make("span", { class: "quiet" }, "above 0 holds"))),
      make("div", {}, make("dt", {}, "Margin there"), make("dd", {}, make("span", { class: "large" }, figure(there)), make("span", { class: "quiet" }, "of that model; below 0 fails"))));
    const rows = [];
    for (let k = 0; k < flat.length; k += 3) {
      const [where, now] = data.counters.parameters[flat[k]];
      rows.push(make("tr", {}, make("th", { scope: "row" }, where), make("td", { class: "number" }, figure(now, 4)),
        make("td", { class: "number" }, figure(flat[k + 1], 4)), make("td", { class: "number" }, figure(flat[k + 2]))));
    }
    const label = "Its changes that cost this person most";
    const heads = [["Parameter"], ["Today", "number"], ["There", "number"], ["Effect on the margin", "number"]];
    const parts = [make("h2", {}, closest ? "The model that comes closest to breaking it" : "A model that breaks it"), make("p", { class: "lead" }, lead), margins];
    if (rows.length) parts.push(make("h3", {}, label), table(label, heads, [["", rows]]));
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
      ...[ways, make("p", { class: "eyebrow" }, `Number ${count(i + 1)} of ${count(everyone.length)}`), heading, statement(i),
        keyFigures(i), ruler(i), ...changes(i), ...against(i), ...otherWays(i), ...beforeAfter(i), ...counterModel(i), ...papers(i)].filter(Boolean),
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
