// What every page does beyond showing itself: colours, copying, the outline.
(function () {
  'use strict';
  var root = document.documentElement;

  function on(selector, type, fn) {
    document.addEventListener(type, function (e) {
      var el = e.target.closest && e.target.closest(selector);
      if (el) fn(el, e);
    });
  }

  // Dark or light: the button turns what is seen into the other one.
  on('[data-theme-toggle]', 'click', function () {
    var dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    try { localStorage.setItem('rutter:theme', root.dataset.theme); } catch (e) { /* for this page only */ }
  });

  // Copying takes commands: of a session those in data-copy, else the block.
  var status = document.getElementById('status');
  function copied(button, ok) {
    button.textContent = ok ? 'Copied' : 'Press Ctrl-C';
    if (status) status.textContent = button.textContent;
    setTimeout(function () { button.textContent = 'Copy'; if (status) status.textContent = ''; }, 1600);
  }
  function select(el) {
    var range = document.createRange();
    range.selectNodeContents(el);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  }
  on('button.copy', 'click', function (button) {
    var block = button.closest('.block, .runline');
    var code = block.querySelector('code');
    var text = block.dataset.copy || visibleText(code);
    var fallback = function () {
      // Pages opened from a file may not use the clipboard interface.
      select(code);
      copied(button, document.execCommand && document.execCommand('copy'));
    };
    if (!navigator.clipboard) return fallback();
    navigator.clipboard.writeText(text).then(function () { copied(button, true); }, fallback);
  });
  function visibleText(code) {
    var copy = code.cloneNode(true);
    copy.querySelectorAll('[hidden]').forEach(function (el) { el.remove(); });
    return copy.textContent.replace(/\n+$/, '');
  }

  // Long commands are wrapped; a reader may have them scroll from now on.
  function wrap(yes) {
    root.classList.toggle('nowrap', !yes);
    document.querySelectorAll('button.wrapper').forEach(function (b) { b.setAttribute('aria-pressed', String(yes)); });
  }
  on('button.wrapper', 'click', function () {
    var yes = root.classList.contains('nowrap');
    wrap(yes);
    try { localStorage.setItem('rutter:nowrap', yes ? '' : '1'); } catch (e) { /* for this page only */ }
  });
  try { wrap(localStorage.getItem('rutter:nowrap') !== '1'); } catch (e) { /* wrap */ }

  // An anchor inside of something folded opens it; so does printing.
  function reveal() {
    var id = decodeURIComponent(location.hash.slice(1));
    var el = id && document.getElementById(id);
    for (var d = el; d; d = d.parentElement) if (d.tagName === 'DETAILS') d.open = true;
    if (el && el.closest('details')) el.scrollIntoView();
  }
  addEventListener('hashchange', reveal);
  reveal();
  addEventListener('beforeprint', function () {
    document.querySelectorAll('details:not([open])').forEach(function (d) { d.open = true; });
  });

  // The outline shows where one is.
  var toc = document.querySelector('.toc');
  var links = Array.prototype.slice.call(document.querySelectorAll('.toc a'));
  var heads = links.map(function (a) { return document.getElementById(decodeURIComponent(a.hash.slice(1))); });
  var waiting = false;
  function mark() {
    waiting = false;
    var current = 0;
    heads.forEach(function (h, i) { if (h && h.getBoundingClientRect().top < 120) current = i; });
    links.forEach(function (a, i) {
      if (i !== current) return a.removeAttribute('aria-current');
      a.setAttribute('aria-current', 'true');
      toc.scrollTop = Math.max(0, a.offsetTop - toc.clientHeight / 2);
    });
  }
  if (links.length) {
    addEventListener('scroll', function () { if (!waiting) { waiting = true; requestAnimationFrame(mark); } }, { passive: true });
    mark();
  }

  // The drawer is a link to the navigation; Escape closes it.
  addEventListener('keydown', function (e) {
    if (e.key === 'Escape' && location.hash === '#nav') location.hash = '#top';
  });
})();
