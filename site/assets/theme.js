// Runs before the page is drawn: says that there are scripts, and puts on the
// colours that the reader chose last time.
(function () {
  var root = document.documentElement;
  root.classList.add('js');
  try {
    var theme = localStorage.getItem('rutter:theme');
    if (theme === 'dark' || theme === 'light') root.dataset.theme = theme;
  } catch (e) { /* no storage: follow the system */ }
})();
