"use strict";
// Numbers come from posenc's exact core: this file draws, rotates by them and looks them up.
const unpack = p => {
  if (p.count !== undefined) return Array.from({length: p.count}, (_, i) => p.start + i * p.step);
  if (Array.isArray(p)) return p;
  const bytes = Uint8Array.from(atob(p.data), c => c.charCodeAt(0));
  return p.bits === 64 ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
};
const text = v => typeof v === "string" ? v : Number.isNaN(v) ? "not finite"
  : Number.isInteger(v) && Math.abs(v) < 1e15 ? String(v).replace("-", "−")
  : String(Number(v.toPrecision(7))).replace("-", "−");
const place = (v, [low, high, log]) => log
  ? (Math.log(v) - Math.log(low)) / (Math.log(high) - Math.log(low)) : (v - low) / (high - low);
// q = k = (amplitude, 0) in every pair, rotated by positions m and n.
const scoreOf = (clocks, offset) => clocks.amplitude ** 2
  * clocks.frequencies.reduce((sum, rate) => sum + Math.cos(offset * rate), 0);
const handOf = (clocks, pair, position) => {
  const angle = position * clocks.frequencies[pair];
  return [clocks.amplitude * Math.cos(angle), clocks.amplitude * Math.sin(angle)];
};
const rungsOf = (ladder, base, factor) => {
  const pairs = ladder.pairs, start = (base * ladder.factors.length + factor) * pairs;
  return ladder.wavelengths.slice(start, start + pairs);
};
const pathOf = (panel, x, y) => {
  let pen = "M", path = "";
  for (let i = 0; i < x.length; i++) {
    const across = 4000 * place(x[i], panel.xs), up = 4000 * (1 - place(y[i], panel.ys));
    if (!Number.isFinite(across) || !Number.isFinite(up)) { pen = "M"; continue; }
    path += `${pen}${across.toFixed(0)} ${up.toFixed(0)}`;
    pen = "L";
  }
  return path;
};
const cellText = (map, row, column) => {
  const at = map.rows[row], value = map.values[row * map.columns.length + column];
  const mean = map.means ? "mean from " : "";
  let said = `${mean}${map.row} ${text(at)}, ${map.column} ${text(map.columns[column])}: ${map.value} ${text(value)}`;
  const wave = map.wavelengths && map.wavelengths[column];
  if (wave && Number.isFinite(wave) && typeof at === "number")
    said += `; angle ${text(at / wave * 2 * Math.PI)} rad, ${text(at / wave)} rotations`;
  return said;
};
const pointText = (panel, curve, i) =>
  `${curve.name ? curve.name + ": " : ""}${panel.x} ${text(curve.x[i])}, ${panel.y} ${text(curve.y[i])}`;

function explored(plot, panel, output) {
  const mark = document.createElement("span");
  mark.className = "mark";
  const isMap = panel.kind === "map";
  let row = 0, column = 0;
  const show = () => {
    let left, top, size = ["0", "0"];
    if (isMap) {
      const rows = panel.rows.length, columns = panel.columns.length;
      [left, top] = [(column + .5) / columns, (row + .5) / rows];
      size = [`${100 / columns}%`, `${100 / rows}%`];
      output.textContent = cellText(panel, row, column);
    } else {
      const curve = panel.curves[row];
      [left, top] = [place(curve.x[column], panel.xs), 1 - place(curve.y[column], panel.ys)];
      output.textContent = pointText(panel, curve, column);
    }
    mark.style.cssText = `left:${100 * left}%;top:${100 * top}%;width:${size[0]};height:${size[1]}`;
    plot.append(mark);
  };
  const rowsOf = () => isMap ? panel.rows.length : panel.curves.length;
  const columnsOf = () => isMap ? panel.columns.length : panel.curves[row].x.length;
  const hold = (v, most) => Math.max(0, Math.min(most - 1, v));
  plot.addEventListener("pointermove", event => {
    const box = plot.getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width, down = (event.clientY - box.top) / box.height;
    if (isMap) {
      row = hold(Math.floor(down * rowsOf()), rowsOf());
      column = hold(Math.floor(across * columnsOf()), columnsOf());
    } else {
      let best = Infinity;
      panel.curves.forEach((curve, c) => { for (let i = 0; i < curve.x.length; i++) {
        const gap = ((place(curve.x[i], panel.xs) - across) * box.width) ** 2
          + ((1 - place(curve.y[i], panel.ys) - down) * box.height) ** 2;
        if (gap < best) { best = gap; row = c; column = i; }
      } });
    }
    show();
  });
  plot.addEventListener("keydown", event => {
    const far = event.shiftKey ? 10 : 1, step = {ArrowLeft: [0, -far], ArrowRight: [0, far],
      ArrowUp: [-far, 0], ArrowDown: [far, 0], Home: [0, -Infinity], End: [0, Infinity]}[event.key];
    if (!step) return;
    event.preventDefault();
    row = hold(row + step[0], rowsOf());
    column = hold(column + step[1], columnsOf());
    show();
  });
}

function paired(range, number, toValue, toPlace, changed) {
  range.addEventListener("input", () => { number.value = toValue(+range.value); changed(); });
  number.addEventListener("input", () => { range.value = toPlace(+number.value); changed(); });
}

function runClocks(root, clocks) {
  const [m, n] = ["m", "n"].map(name => ["range", "number"].map(kind => root.querySelector(`[name=${name}-${kind}]`)));
  const most = clocks.last, score = root.querySelector("output"), plot = clocks.score;
  const held = input => Math.max(0, Math.min(most, Math.round(+input.value) || 0));
  const steps = +m[0].max, toValue = t => Math.round(most * (t / steps) ** 3), toPlace = v => Math.round(steps * Math.cbrt(v / most));
  const draw = () => {
    const at = {q: held(m[1]), k: held(n[1])}, offset = at.q - at.k;
    root.querySelectorAll(".clock").forEach((clock, i) => {
      const pair = clocks.shown[i];
      for (const of of ["q", "k"]) {
        const [x, y] = handOf(clocks, pair, at[of]), hand = clock.querySelector("line." + of);
        hand.setAttribute("x2", x / clocks.amplitude);
        hand.setAttribute("y2", -y / clocks.amplitude);
      }
      clock.querySelector("b").textContent = `q·k = ${text(clocks.amplitude ** 2 * Math.cos(offset * clocks.frequencies[pair]))}`;
    });
    const value = scoreOf(clocks, offset), whole = clocks.amplitude ** 2 * clocks.frequencies.length;
    score.textContent = `m − n = ${text(offset)}: q·k = ${text(value)}, ${text(100 * value / whole)} % of its value at m = n`;
    m[0].setAttribute("aria-valuetext", `m = ${at.q}`);
    n[0].setAttribute("aria-valuetext", `n = ${at.k}`);
  };
  paired(m[0], m[1], toValue, toPlace, draw);
  paired(n[0], n[1], toValue, toPlace, draw);
  draw();
}

function runLadder(root, ladder, panel, plot) {
  const inputs = ["base", "factor"].map(name => root.querySelector(`[name=${name}]`));
  const stops = [ladder.bases, ladder.factors], curve = panel.curves[panel.curves.length - 1];
  const path = plot.querySelector("svg").querySelectorAll("path.curve");
  const draw = () => {
    const at = inputs.map(input => input ? +input.value : 0);
    curve.y = rungsOf(ladder, ...at);
    path[path.length - 1].setAttribute("d", pathOf(panel, curve.x, curve.y));
    inputs.forEach((input, i) => {
      if (!input) return;
      const name = text(stops[i][at[i]]);
      input.setAttribute("aria-valuetext", name);
      input.parentNode.querySelector("b").textContent = name;
    });
    const finite = curve.y.filter(Number.isFinite), beyond = [...curve.y].filter(v => !(v <= ladder.context)).length;
    root.querySelector("output.result").textContent =
      `wavelengths from ${text(Math.min(...finite))} to ${text(Math.max(...finite))} positions; `
      + `${beyond} of ${ladder.pairs} pairs are longer than the context of ${text(ladder.context)} positions`;
  };
  inputs.forEach(input => input && input.addEventListener("input", draw));
  draw();
}

function ready(data) {
  for (const panel of data.panels) {
    if (panel.kind === "map") for (const key of ["rows", "columns", "values"]) panel[key] = unpack(panel[key]);
    if (panel.wavelengths) panel.wavelengths = unpack(panel.wavelengths);
    for (const curve of panel.curves || []) for (const key of ["x", "y"]) curve[key] = unpack(curve[key]);
  }
  for (const live of data.live) for (const key of ["frequencies", "wavelengths"]) if (live[key]) live[key] = unpack(live[key]);
  return data;
}

function start() {
  const data = ready(JSON.parse(document.getElementById("data").textContent));
  document.querySelectorAll("[data-panel]").forEach(figure => {
    const panel = data.panels[figure.dataset.panel], plot = figure.querySelector(".plot");
    if (panel.kind === "map" || panel.curves.length) {
      plot.tabIndex = 0;
      explored(plot, panel, figure.querySelector("output"));
    }
  });
  document.querySelectorAll("[data-live]").forEach(root => {
    const live = data.live[root.dataset.live];
    root.hidden = false;
    if (live.kind === "clocks") return runClocks(root, live);
    const figure = root.querySelector("[data-panel]");
    runLadder(root, live, data.panels[figure.dataset.panel], figure.querySelector(".plot"));
  });
}
if (typeof document !== "undefined") start();
