// A runbook's page: what the reader fills in goes into every command, and what
// is done stays ticked. Nothing leaves this browser.
(function () {
  'use strict';
  var main = document.querySelector('[data-runbook]');
  if (!main) return;
  var key = 'rutter:' + main.dataset.runbook;

  function load(name) {
    try { return JSON.parse(localStorage.getItem(key + ':' + name)) || {}; } catch (e) { return {}; }
  }
  function save(name, value) {
    try { localStorage.setItem(key + ':' + name, JSON.stringify(value)); } catch (e) { /* for this visit only */ }
  }

  // quote makes a value one piece of a shell command, where it stands:
  // b bare, s inside single quotes, h in a here-document, x in one that expands.
  function quote(value, where) {
    switch (where) {
      case 's': return value.replace(/'/g, "'\\''");
      case 'h': return value;
      case 'x': return value.replace(/[\\$`]/g, '\\$&');
    }
    return /^[A-Za-z0-9_@%+=:,./-]+$/.test(value) ? value : "'" + value.replace(/'/g, "'\\''") + "'";
  }

  var fields = Array.prototype.slice.call(main.querySelectorAll('[data-field]'));
  var spans = Array.prototype.slice.call(main.querySelectorAll('[data-var]'));
  spans.forEach(function (s) { s.dataset.blank = s.textContent; });

  // valid compares a value with the input's pattern. That is written for Go;
  // what a browser cannot read it does not judge.
  function valid(field) {
    if (!field.dataset.pattern || !field.value.trim()) return true;
    try {
      return new RegExp('^(?:' + field.dataset.pattern + ')$', 'u').test(field.value.trim());
    } catch (e) {
      return true;
    }
  }
  function value(field) {
    if (field.type === 'checkbox') return field.checked ? 'true' : field.dataset.unset || '';
    return valid(field) ? field.value.trim() : '';
  }
  function fill() {
    var values = {};
    fields.forEach(function (f) {
      values[f.dataset.field] = value(f);
      if (f.type === 'text') f.setAttribute('aria-invalid', String(!valid(f)));
    });
    spans.forEach(function (s) {
      var v = values[s.dataset.var];
      s.textContent = v ? quote(v, s.dataset.quote) : s.dataset.blank;
      s.classList.toggle('filled', Boolean(v));
    });
    main.querySelectorAll('[data-if]').forEach(function (el) {
      var f = fields.find(function (x) { return x.dataset.field === el.dataset.if; });
      el.hidden = !values[el.dataset.if] || Boolean(f) && values[el.dataset.if] === f.dataset.default;
    });
  }

  var kept = load('fields');
  fields.forEach(function (f) {
    if (!(f.dataset.field in kept)) return;
    if (f.type === 'checkbox') f.checked = kept[f.dataset.field] === true; else f.value = String(kept[f.dataset.field]);
  });
  main.addEventListener('input', function (e) {
    if (!e.target.dataset.field) return;
    fields.forEach(function (f) { if (!f.dataset.secret) kept[f.dataset.field] = f.type === 'checkbox' ? f.checked : f.value; });
    save('fields', kept);
    fill();
  });
  fill();

  var done = load('done');
  var boxes = Array.prototype.slice.call(main.querySelectorAll('[data-done]'));
  var progress = main.querySelector('[data-progress]');
  var reset = main.querySelector('[data-reset]');
  function tick() {
    var n = 0, all = 0, any = false;
    boxes.forEach(function (b) {
      any = any || b.checked;
      if (!b.closest('.rescue')) { all++; if (b.checked) n++; }
      b.closest('.step').classList.toggle('is-done', b.checked);
    });
    if (progress) progress.textContent = n ? n + ' of ' + all + ' done' : '';
    if (reset) reset.hidden = !any;
  }
  boxes.forEach(function (b) { b.checked = done[b.dataset.done] === true; });
  main.addEventListener('change', function (e) {
    if (!e.target.dataset.done) return;
    done[e.target.dataset.done] = e.target.checked;
    save('done', done);
    tick();
  });
  if (reset) reset.addEventListener('click', function () {
    boxes.forEach(function (b) { b.checked = false; });
    done = {};
    save('done', done);
    tick();
  });
  tick();
})();
