package generator_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var shots = flag.String("shots", "", "write screenshots of every kind of page to this directory")

// browser is one Chromium for all tests of the package, started by the first.
var browser = sync.OnceValues(func() (context.Context, error) {
	name, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("the browser tests need Chromium: apt-get install chromium (%w)", err)
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(name), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.WSURLReadTimeout(time.Minute))
	// The browser lives until the tests end; main stops it.
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, _ := chromedp.NewContext(alloc)
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	stopBrowser = func() {
		_ = chromedp.Cancel(ctx)
		stop()
	}
	return ctx, nil
})

var stopBrowser = func() {}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// tab is a browser tab that remembers what went wrong in it.
type tab struct {
	ctx context.Context
	t   *testing.T

	mu       sync.Mutex
	problems []string
	requests []string
}

// newTab opens a tab, and fails the test at its end if the console was not
// clean or anything but the site was asked for.
func newTab(t *testing.T, site string, limit time.Duration) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	ctx, cancelTime := context.WithTimeout(ctx, limit)
	b := &tab{ctx: ctx, t: t}
	err = chromedp.Listen(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *log.EventEntryAdded:
			b.problems = append(b.problems, ev.Entry.Text+" "+ev.Entry.URL)
		case *runtime.EventConsoleAPICalled:
			b.problems = append(b.problems, fmt.Sprintf("console.%s", ev.Type))
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, ev.ExceptionDetails.Text+" "+ev.ExceptionDetails.URL)
		case *network.EventRequestWillBeSent:
			b.requests = append(b.requests, ev.Request.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancelTime()
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.problems {
			t.Errorf("console: %s", p)
		}
		for _, u := range b.requests {
			if !strings.HasPrefix(u, site) && !strings.HasPrefix(u, "data:") {
				t.Errorf("a page asked for %s", u)
			}
		}
	})
	return b
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of a JavaScript expression as text.
func (b *tab) eval(js string) string {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](js))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return got
}

func (b *tab) want(js, want string) {
	b.t.Helper()
	if got := b.eval(js); got != want {
		b.t.Errorf("%s\n got %q\nwant %q", js, got, want)
	}
}

// fill types over what a field holds.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.eval(`(e => { e.value = ''; e.dispatchEvent(new Event('input', {bubbles: true})); return ''; })(document.querySelector('` + selector + `'))`)
	b.run(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// until waits for a JavaScript expression to hold.
func (b *tab) until(js string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Poll[chromedp.Void](js, chromedp.WithPollingTimeout(10*time.Second))); err != nil {
		b.t.Fatalf("waiting for %s: %v", js, err)
	}
}

// arrive waits until the tab shows an address.
func (b *tab) arrive(url string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// In the middle of a navigation there is nothing to ask, and the test's
		// server leaves index.html away.
		got, err := chromedp.Run(b.ctx, chromedp.Location())
		if err == nil && strings.TrimSuffix(got, "index.html") == strings.TrimSuffix(url, "index.html") {
			return
		}
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatalf("the tab never came to %s", url)
		}
	}
}

// sites returns the built site as it can be opened: from a file, and from a
// server under a path of its own. Each ends in a slash.
func sites(t *testing.T) map[string]string {
	t.Helper()
	dir := buildSample(t)
	mux := http.NewServeMux()
	mux.Handle("/deep/docs/", http.StripPrefix("/deep/docs/", http.FileServer(http.Dir(dir))))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return map[string]string{"file": "file://" + dir + "/", "http": srv.URL + "/deep/docs/"}
}

const (
	runbookPage = "runbooks/shop/repair/index.html"
	homePage    = "index.html"
)

func TestBrowserEveryPageIsClean(t *testing.T) {
	dir := buildSample(t)
	for kind, site := range sites(t) {
		t.Run(kind, func(t *testing.T) {
			b := newTab(t, site, time.Minute)
			for _, name := range pagesIn(t, dir) {
				// A server has directories for pages; a file has not.
				b.run(chromedp.Navigate(site + name))
				b.want(`String(document.styleSheets.length)`, "1")
				b.want(`String(document.documentElement.classList.contains('js'))`, "true")
				for _, width := range []int64{360, 768, 1440} {
					b.run(chromedp.EmulateViewport(width, 800))
					if over := b.eval(`String(document.documentElement.scrollWidth - innerWidth)`); over != "0" {
						t.Errorf("%s is %s pixels too wide at %d", name, over, width)
					}
				}
			}
		})
	}
}

func TestBrowserSearch(t *testing.T) {
	for kind, site := range sites(t) {
		t.Run(kind, func(t *testing.T) {
			b := newTab(t, site, time.Minute)
			b.run(chromedp.Navigate(site+homePage), chromedp.KeyEvent("/"))
			b.until(`document.getElementById('search').open`)
			for _, tc := range []struct{ query, first string }{
				{"Why does the shop not open?", "Why does the shop not open?"},
				{"liqo.io/type", "Identifiers"},
				{"--set-file", "Identifiers"},
				{"OffloadingBackOff", "Why does the shop not open?"},
				{"設定", "設定ファイル"},
				{"SLURMCluster(", "Identifiers"},
				{"pod/shop-7d9f8-x2x4z is in OffloadingBackOff at 10.0.0.7", "Why does the shop not open?"},
				{"repair", "Repair the shop"},
			} {
				b.fill(`#search input`, tc.query)
				b.until(`document.querySelector('#search li strong')`)
				b.want(`document.querySelector('#search li strong').textContent`, tc.first)
			}
			b.fill(`#search input`, "xyzzyplugh")
			b.until(`document.querySelector('#search p').textContent === 'Nothing here says that.'`)
			b.fill(`#search input`, "Repair the shop\r")
			b.arrive(site + runbookPage)
		})
	}
}

func TestBrowserFillingIn(t *testing.T) {
	site := sites(t)["file"]
	b := newTab(t, site, time.Minute)
	b.run(chromedp.Navigate(site + runbookPage))
	code := `document.querySelector('[data-kubectl=look]').textContent`
	before := b.eval(code)
	if !strings.Contains(before, "<SHOP_NAME>") || !strings.Contains(before, "<LOCAL_CONTEXT>") {
		t.Fatalf("no placeholders in %q", before)
	}
	b.run(
		chromedp.SendKeys(chromedp.CSS(`[data-field="i:shopName"]`), "corner-shop"),
		chromedp.SendKeys(chromedp.CSS(`[data-field="c:local"]`), "my first cluster"),
	)
	want := strings.NewReplacer("<SHOP_NAME>", "corner-shop", "<LOCAL_CONTEXT>", "'my first cluster'").Replace(before)
	b.want(code, want)
	b.want(`document.querySelector('.runline button').closest('.runline').querySelector('code').textContent.includes("--cluster local='my first cluster' -i shopName=corner-shop") + ''`, "true")

	b.run(chromedp.Reload())
	b.want(code, want)
	b.fill(`[data-field="i:shopName"]`, "Not Valid;")
	b.want(code, strings.ReplaceAll(before, "<LOCAL_CONTEXT>", "'my first cluster'"))
}

func TestBrowserChecklistAndTheme(t *testing.T) {
	site := sites(t)["http"]
	b := newTab(t, site, time.Minute)
	b.run(chromedp.Navigate(site+runbookPage), chromedp.Click(chromedp.CSS(`[data-done=look]`)))
	b.want(`document.querySelector('[data-progress]').textContent`, "1 of 3 done")
	b.run(chromedp.Click(chromedp.CSS(`[data-theme-toggle]`)))
	theme := b.eval(`document.documentElement.dataset.theme`)
	b.run(chromedp.Reload())
	b.want(`String(document.querySelector('[data-done=look]').checked)`, "true")
	b.want(`document.documentElement.dataset.theme`, theme)
	b.run(chromedp.Click(chromedp.CSS(`[data-reset]`)))
	b.want(`document.querySelector('[data-progress]').textContent`, "")
}

func TestBrowserCopyTakesCommandsOnly(t *testing.T) {
	site := sites(t)["http"]
	b := newTab(t, site, time.Minute)
	b.run(chromedp.Navigate(site + "faq/shop/closed/index.html"))
	b.eval(`window.copied = ''; navigator.clipboard.writeText = t => { window.copied = t; return Promise.resolve(); }; 'ready'`)
	b.run(chromedp.Click(chromedp.CSS(`.block button.copy`)))
	b.want(`window.copied`, "kubectl get pods \\\n    -l app=shop")
}

// prefer makes the browser ask for light or dark pages.
func prefer(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// TestBrowserScreenshots writes pictures to look at; it judges nothing.
func TestBrowserScreenshots(t *testing.T) {
	if *shots == "" {
		t.SkipNow() // nothing is tested here: -shots DIR asks for pictures
	}
	dir := buildSample(t)
	if site := os.Getenv("RUTTER_SHOTS_SITE"); site != "" {
		dir = site
	}
	b := newTab(t, "file://"+dir, 10*time.Minute)
	for _, name := range pagesIn(t, dir) {
		for _, width := range []int64{360, 768, 1440} {
			for _, scheme := range []string{"light", "dark"} {
				b.run(chromedp.EmulateViewport(width, 900), prefer(scheme), chromedp.Navigate("file://"+filepath.Join(dir, name)))
				png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				if err != nil {
					t.Fatal(err)
				}
				file := strings.NewReplacer("/index.html", "", "/", "-", ".html", "").Replace(name)
				out := filepath.Join(*shots, fmt.Sprintf("%s-%d-%s.png", file, width, scheme))
				if err := os.WriteFile(out, png, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
