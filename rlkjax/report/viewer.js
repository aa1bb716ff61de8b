"use strict";
// Plays the film of a page: the bodies of one episode, on a canvas that can be turned.
// The picture is that of render/still.py: the same eye, light and order of painting.
(() => {
  const block = document.getElementById("film");
  if (!block) return;
  const film = JSON.parse(block.textContent);
  const LIGHT = unit([0.35, -0.45, 0.82]);
  const AMBIENT = 0.62, FLOOR = 0.8, CORNERS = 48;

  const poses = numbers(film.poses), track = numbers(film.track), returns = numbers(film.returns);
  const frames = track.length / 3;
  const solids = film.solids.map((solid) => ({
    ...solid, faces: film.shapes[solid.shape], vertices: numbers(solid.vertices),
  }));
  const view = { azimuth: film.azimuth, elevation: film.elevation };
  let frame = 0, playing = false, last = 0, owed = 0;

  // --- numbers ---------------------------------------------------------------------------------

  function numbers(text) {
    const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    const found = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length / 4 }, (_, k) => found.getFloat32(4 * k, true));
  }
  function dot(a, b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
  function minus(a, b) { return [a[0] - b[0], a[1] - b[1], a[2] - b[2]]; }
  function cross(a, b) {
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  }
  function unit(a) { const size = Math.hypot(...a) || 1; return a.map((each) => each / size); }

  // Corners of a solid in the world: v + 2 q x (q x v + w v) + p, for the unit quaternion (w, q).
  function placed(solid) {
    const at = 7 * (frame * film.bodies + solid.body);
    const p = poses.subarray(at, at + 3), w = poses[at + 3], q = poses.subarray(at + 4, at + 7);
    const found = [];
    for (let k = 0; k < solid.vertices.length; k += 3) {
      const v = solid.vertices.subarray(k, k + 3);
      const t = cross(q, v), u = cross(q, [t[0] + w * v[0], t[1] + w * v[1], t[2] + w * v[2]]);
      found.push([v[0] + 2 * u[0] + p[0], v[1] + 2 * u[1] + p[1], v[2] + 2 * u[2] + p[2]]);
    }
    return found;
  }

  // Andrew's monotone chain.
  function hull(points) {
    const turn = (a, b, c) => (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
    const chain = (ordered) => {
      const kept = [];
      for (const point of ordered) {
        while (kept.length > 1 && turn(kept[kept.length - 2], kept[kept.length - 1], point) <= 0) kept.pop();
        kept.push(point);
      }
      return kept.slice(0, -1);
    };
    const ordered = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    return [...chain(ordered), ...chain([...ordered].reverse())];
  }

  // --- the picture -----------------------------------------------------------------------------

  const canvas = document.createElement("canvas");
  const brush = canvas.getContext("2d");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "The moving bodies; arrow keys or a drag turn the view, space plays");

  function eye() {
    const target = track.subarray(3 * frame, 3 * frame + 3);
    const flat = Math.cos(view.elevation);
    const away = [-flat * Math.cos(view.azimuth), -flat * Math.sin(view.azimuth), -Math.sin(view.elevation)];
    const right = [-Math.sin(view.azimuth), Math.cos(view.azimuth), 0];
    const up = cross(right, away);
    const position = [0, 1, 2].map((k) => target[k] - film.distance * away[k]);
    const scale = canvas.height / 2 / Math.tan(film.fieldOfView / 2);
    const see = (point) => {
      const d = minus(point, position), depth = dot(d, away);
      return [canvas.width / 2 + dot(d, right) * scale / depth, canvas.height / 2 - dot(d, up) * scale / depth, depth];
    };
    return { target, position, see };
  }

  function trace(points) {
    points.forEach((point, k) => (k ? brush.lineTo(point[0], point[1]) : brush.moveTo(point[0], point[1])));
    brush.closePath();
  }

  function floor(at, style) {
    const middle = [at.target[0], at.target[1]], radius = FLOOR * film.distance, z = film.ground;
    const rim = Array.from({ length: CORNERS }, (_, k) => 2 * Math.PI * k / CORNERS);
    brush.beginPath();
    trace(rim.map((a) => at.see([middle[0] + radius * Math.cos(a), middle[1] + radius * Math.sin(a), z])));
    brush.fillStyle = style.getPropertyValue("--floor");
    brush.fill();
    const cell = 10 ** Math.floor(Math.log10(radius / 2));
    brush.beginPath();
    for (const axis of [0, 1]) {
      for (let n = Math.ceil((middle[axis] - radius) / cell); n * cell <= middle[axis] + radius; n++) {
        const half = Math.sqrt(Math.max(radius ** 2 - (n * cell - middle[axis]) ** 2, 0));
        trace([-half, half].map((side) => {
          const point = [0, 0, z];
          point[axis] = n * cell;
          point[1 - axis] = middle[1 - axis] + side;
          return at.see(point);
        }));
      }
    }
    brush.strokeStyle = style.getPropertyValue("--grid");
    brush.stroke();
  }

  function draw() {
    const style = getComputedStyle(canvas), at = eye(), faces = [];
    brush.clearRect(0, 0, canvas.width, canvas.height);
    brush.lineWidth = canvas.width / 960;
    brush.lineJoin = "round";
    if (film.ground !== null) floor(at, style);
    brush.beginPath();
    for (const solid of solids) {
      const corners = placed(solid), seen = corners.map(at.see);
      if (film.ground !== null && solid.body) {
        trace(hull(corners.map((v) => {
          const fall = (v[2] - film.ground) / LIGHT[2];
          return at.see([v[0] - fall * LIGHT[0], v[1] - fall * LIGHT[1], film.ground]);
        })));
      }
      for (const face of solid.faces) {
        const [a, b, c] = face.map((k) => corners[k]);
        const normal = cross(minus(b, a), minus(c, a));
        if (dot(normal, minus(at.position, a)) <= 0) continue;
        const lit = AMBIENT + (1 - AMBIENT) * dot(unit(normal), LIGHT);
        const depth = face.reduce((sum, k) => sum + seen[k][2], 0) / face.length;
        faces.push([depth, face.map((k) => seen[k]), solid.color.map((part) => Math.min(Math.round(part * lit), 255))]);
      }
    }
    brush.fillStyle = style.getPropertyValue("--shadow");
    brush.fill();
    faces.sort((a, b) => b[0] - a[0]);
    for (const [, points, color] of faces) {
      brush.fillStyle = brush.strokeStyle = `rgb(${color})`;
      brush.beginPath();
      trace(points);
      brush.fill();
      brush.stroke();
    }
    label.textContent = `step ${frame * film.stride} · ${(frame * film.seconds).toFixed(2)} s · return ${returns[frame].toFixed(2)}`;
    slider.value = frame;
  }

  // --- the controls ----------------------------------------------------------------------------

  const button = document.createElement("button");
  const slider = document.createElement("input");
  const label = document.createElement("output");
  Object.assign(slider, { type: "range", min: 0, max: frames - 1, value: 0 });
  slider.setAttribute("aria-label", "step of the episode");

  function play(on) {
    playing = on && frames > 1;
    button.textContent = playing ? "Pause" : "Play";
    if (playing && frame === frames - 1) frame = 0;
    last = performance.now();
    owed = 0;
    if (playing) requestAnimationFrame(tick);
  }
  function tick(now) {
    if (!playing) return;
    owed += (now - last) / 1000;
    last = now;
    const forward = Math.floor(owed / film.pace);
    owed -= forward * film.pace;
    frame = Math.min(frame + forward, frames - 1);
    draw();
    if (frame === frames - 1) play(false);
    else requestAnimationFrame(tick);
  }
  function turn(azimuth, elevation) {
    view.azimuth += azimuth;
    view.elevation = Math.min(Math.max(view.elevation + elevation, 0.02), 1.55);
    draw();
  }
  function fit() {
    const width = stage.clientWidth * devicePixelRatio;
    Object.assign(canvas, { width, height: width / 2 });
    draw();
  }

  button.addEventListener("click", () => play(!playing));
  slider.addEventListener("input", () => { play(false); frame = Number(slider.value); draw(); });
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) turn(-event.movementX * 0.008, event.movementY * 0.008);
  });
  canvas.addEventListener("keydown", (event) => {
    const turns = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] };
    if (event.key === " ") play(!playing);
    else if (turns[event.key]) turn(...turns[event.key]);
    else return;
    event.preventDefault();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", fit);

  const stage = document.getElementById("stage");
  const bar = document.createElement("div");
  bar.className = "bar";
  bar.append(button, slider, label);
  stage.replaceChildren(canvas, bar);
  frame = Math.floor(frames / 2);
  play(false);
  fit();
})();
