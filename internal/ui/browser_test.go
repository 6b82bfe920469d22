package ui

import (
	"context"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser starts a browser without a window, or skips the test where there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" || testing.Short() {
		t.Skip("no browser, or the short tests only")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox)
	alloc, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(cancel)
	do(t, ctx) // starts it
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// complaints collects what the pages throw or write to the console.
func complaints(t *testing.T, ctx context.Context) func() []string {
	t.Helper()
	var mu sync.Mutex
	var list []string
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			list = append(list, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			list = append(list, "console: "+string(e.Type))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

func do(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

func ask[T any](t *testing.T, ctx context.Context, a chromedp.Action[T]) T {
	t.Helper()
	answer, err := chromedp.Run(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// keys types into the field for an item. What a page shows is replaced at any time, so that no node of it can be held on to from here.
func keys(text string) chromedp.Action[chromedp.Void] {
	focus := chromedp.Evaluate[chromedp.Void]("document.getElementById('item').focus()")
	typed := chromedp.KeyEvent(text)
	return func(ctx context.Context, page *chromedp.Target) (chromedp.Void, error) {
		if none, err := focus(ctx, page); err != nil {
			return none, err
		}
		return typed(ctx, page)
	}
}

// A person opens the printed address, goes to the job, and asks for the story of an item.
func TestAPersonClicksThroughThePages(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	wrong := complaints(t, ctx)
	heading := func() string {
		return ask(t, ctx, chromedp.Evaluate[string]("document.querySelector('h1').textContent"))
	}
	do(t, ctx, chromedp.Navigate(s.URL+"/?token="+token))
	headings := []string{heading()}
	do(t, ctx, chromedp.Evaluate[chromedp.Void]("document.querySelector('tbody a').click()"), chromedp.WaitVisible("#item"))
	headings = append(headings, heading())
	do(t, ctx, keys("item_1\r"), chromedp.WaitVisible("ol.story"))
	headings = append(headings, heading())
	if want := []string{"Jobs", evil + " completed", "item_1"}; !slices.Equal(headings, want) {
		t.Errorf("headings %q, want %q", headings, want)
	}
	if n := ask(t, ctx, chromedp.Evaluate[int]("document.querySelectorAll('script').length")); n != 1 || len(wrong()) > 0 {
		t.Errorf("%d scripts, complaints %q", n, wrong())
	}
}

// The middle of a page is replaced by what the server sends, and what a person types into it stays.
func TestWhatIsTypedStaysWhenThePageIsReplaced(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	const again = `const again = new EventSource(main.dataset.live);
		again.addEventListener("page", (e) => { place(e.data); again.close(); });`
	do(t, ctx,
		chromedp.Navigate(s.URL+"/jobs/"+s.job.ID+"?token="+token), chromedp.WaitVisible("#item"), keys("half"),
		chromedp.Evaluate[chromedp.Void]("document.querySelector('h1').textContent = 'old'"), chromedp.Evaluate[chromedp.Void](again),
	)
	ask(t, ctx, chromedp.Poll[bool]("document.querySelector('h1').textContent !== 'old'"))
	if typed := ask(t, ctx, chromedp.Value("#item")); typed != "half" {
		t.Errorf("what was typed is now %q", typed)
	}
	if at := ask(t, ctx, chromedp.Evaluate[string]("document.activeElement.id")); at != "item" {
		t.Errorf("the focus is at %q", at)
	}
}

// Those who cannot see a page, or use no mouse, can use it: everything to fill in and every drawing has a name, there is one main
// heading, and all that can be clicked can be reached by the keyboard.
func TestPagesHaveNames(t *testing.T) {
	ctx := browser(t)
	s := newSite(t)
	const check = `(() => {
		const bad = [];
		if (!document.documentElement.lang) bad.push("no language");
		if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
		for (const e of document.querySelectorAll("input:not([type=hidden])")) if (!e.labels.length) bad.push("input " + e.id);
		for (const e of document.querySelectorAll("svg, progress")) if (!e.getAttribute("aria-label")) bad.push(e.tagName);
		for (const e of document.querySelectorAll("a, button")) if (!e.textContent.trim() || e.tabIndex < 0) bad.push("link or button " + e.outerHTML);
		for (const e of document.querySelectorAll("table")) if (!e.querySelector("thead th")) bad.push("table without headings");
		return bad;
	})()`
	do(t, ctx, chromedp.Navigate(s.URL+"/?token="+token))
	for _, path := range []string{"/", "/jobs/" + s.job.ID, "/jobs/" + s.job.ID + "/letters", "/jobs/" + s.job.ID + "/items/item_1"} {
		do(t, ctx, chromedp.Navigate(s.URL+path), chromedp.WaitVisible("h1"))
		if bad := ask(t, ctx, chromedp.Evaluate[[]string](check)); len(bad) > 0 {
			t.Errorf("%s: %q", path, bad)
		}
	}
}
