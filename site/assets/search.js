// Search without a server: the index is a script, loaded when it is first
// wanted, because a page opened from a file may fetch nothing.
(function () {
  'use strict';
  var dialog = document.getElementById('search');
  if (!dialog || !dialog.showModal) return;
  var box = dialog.querySelector('input');
  var list = dialog.querySelector('ul');
  var note = dialog.querySelector('p');
  var base = document.body.dataset.root;
  var index = null;

  var JOINERS = './:_@-';
  var WORD = /[\p{L}\p{N}\p{M}]/u;
  var UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}]/u;

  // query cuts what was typed as the index was cut (generator/search/terms.go),
  // but keeps an identifier whole instead of adding its parts.
  function query(text) {
    var out = [];
    (text.match(/[\p{L}\p{N}\p{M}./:_@-]+/gu) || []).forEach(function (id) {
      var chars = Array.from(id);
      while (chars.length && JOINERS.includes(chars[0])) chars.shift();
      while (chars.length && JOINERS.includes(chars[chars.length - 1])) chars.pop();
      if (!chars.length) return;
      if (chars.some(function (c) { return UNSPACED.test(c); })) pairs(chars, out);
      else out.push(chars.join('').toLowerCase());
    });
    return out;
  }
  function pairs(chars, out) {
    var run = [];
    var flush = function (spaced) {
      if (!run.length) return;
      if (spaced) out.push(run.join('').toLowerCase());
      else if (run.length === 1) out.push(run[0]);
      else for (var i = 0; i + 1 < run.length; i++) out.push(run[i] + run[i + 1]);
      run = [];
    };
    var spaced = null;
    chars.forEach(function (c) {
      var s = !UNSPACED.test(c);
      if (!WORD.test(c)) { flush(spaced); spaced = null; return; }
      if (spaced !== null && s !== spaced) flush(spaced);
      spaced = s;
      run.push(c);
    });
    flush(spaced);
  }

  window.rutterSearch = function (data) {
    index = data;
    index.terms = data.terms.split(' ');
    update();
  };
  function load() {
    if (index || document.querySelector('script[data-index]')) return;
    var s = document.createElement('script');
    s.src = base + 'search/index.js';
    s.dataset.index = '';
    s.onerror = function () { note.textContent = 'The search index is missing.'; };
    document.head.append(s);
  }

  // first returns the place of the first term that is not before the word.
  function first(word) {
    var lo = 0, hi = index.terms.length;
    while (lo < hi) { var mid = (lo + hi) >> 1; if (index.terms[mid] < word) lo = mid + 1; else hi = mid; }
    return lo;
  }
  // scores maps documents to how well they match a word, or the start of one.
  function scores(word) {
    var found = new Map();
    for (var i = first(word); i < index.terms.length && index.terms[i].startsWith(word); i++) {
      var exact = index.terms[i] === word;
      if (!exact && word.length < 2) break;
      var p = index.postings[i], doc = 0;
      var rare = Math.log(1 + index.docs.length / (p.length / 2));
      for (var j = 0; j < p.length; j += 2) {
        doc += p[j];
        var s = p[j + 1] * rare * (exact ? 1 : 0.4 * word.length / index.terms[i].length);
        found.set(doc, Math.max(found.get(doc) || 0, s));
      }
    }
    return found;
  }
  // lookup finds a word. Of a pasted error message, an identifier that is not
  // in the index, such as a pod's full name, is looked up by its parts.
  function lookup(word, pasted) {
    var found = scores(word);
    if (found.size || !pasted) return [found];
    return word.split(/[^\p{L}\p{N}\p{M}]+/u).filter(function (w) { return w.length > 2; }).map(scores);
  }
  function search(text) {
    var words = Array.from(new Set(query(text)));
    if (!words.length) return [];
    var pasted = words.length > 3;
    var all = words.flatMap(function (w) { return lookup(w, pasted); });
    // A few words must all be there; of a pasted message, half of those that
    // are known at all: the rest is names, numbers and addresses.
    var known = all.filter(function (found) { return found.size; });
    var need = pasted ? Math.ceil(known.length / 2) : all.length;
    var total = new Map();
    known.forEach(function (found) {
      found.forEach(function (s, doc) {
        var t = total.get(doc) || { doc: doc, score: 0, hits: 0 };
        t.score += s; t.hits++;
        total.set(doc, t);
      });
    });
    var typed = text.trim().toLowerCase();
    return Array.from(total.values())
      .filter(function (t) { return t.hits >= need; })
      .map(function (t) {
        var title = index.docs[t.doc][0].toLowerCase();
        if (title === typed) t.score += 1e6;
        else if (title.startsWith(typed)) t.score *= 1.5;
        t.score *= t.hits / all.length;
        return t;
      })
      .sort(function (a, b) { return b.score - a.score || a.doc - b.doc; })
      .slice(0, 12);
  }

  function el(tag, cls, text) {
    var e = document.createElement(tag);
    if (cls) e.className = cls;
    if (text) e.textContent = text;
    return e;
  }
  function update() {
    if (!index) return;
    var hits = search(box.value);
    list.replaceChildren();
    hits.forEach(function (h, i) {
      var d = index.docs[h.doc];
      var li = el('li'), a = el('a');
      a.href = base + d[3];
      a.append(el('span', 'kind', d[2]), el('strong', '', d[0]));
      if (d[1]) a.append(el('span', 'in', d[1]));
      if (d[4]) a.append(el('small', '', d[4]));
      if (i === 0) a.classList.add('on');
      li.append(a);
      list.append(li);
    });
    note.textContent = !box.value.trim() ? 'Type a symptom, an error message, a label or a flag.' :
      hits.length ? hits.length + (hits.length === 1 ? ' result' : ' results') : 'Nothing here says that.';
  }
  function move(by) {
    var all = Array.prototype.slice.call(list.querySelectorAll('a'));
    if (!all.length) return;
    var at = all.findIndex(function (a) { return a.classList.contains('on'); });
    var next = (at + by + all.length) % all.length;
    all.forEach(function (a, i) { a.classList.toggle('on', i === next); });
    all[next].scrollIntoView({ block: 'nearest' });
  }
  function open() {
    if (dialog.open) return;
    load();
    dialog.showModal();
    box.select();
    update();
  }

  document.querySelectorAll('[data-search]').forEach(function (b) { b.addEventListener('click', open); });
  box.addEventListener('input', update);
  dialog.addEventListener('click', function (e) {
    if (e.target === dialog || e.target.closest('a')) dialog.close();
  });
  dialog.addEventListener('keydown', function (e) {
    if (e.key === 'ArrowDown') { move(1); e.preventDefault(); }
    if (e.key === 'ArrowUp') { move(-1); e.preventDefault(); }
    if (e.key === 'Enter') {
      var a = list.querySelector('a.on');
      if (a) { dialog.close(); location.href = a.href; }
      e.preventDefault();
    }
  });
  addEventListener('keydown', function (e) {
    var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.target.isContentEditable;
    if (e.key === '/' && !typing && !e.ctrlKey && !e.metaKey && !e.altKey || (e.key === 'k' || e.key === 'K') && (e.ctrlKey || e.metaKey)) {
      open();
      e.preventDefault();
    }
  });
})();
