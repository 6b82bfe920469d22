package natsfleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"prodigy/internal/fleet"
	"prodigy/internal/testenv/scripts"
)

// manifests returns what the guide about keeping a fleet has for Kubernetes, by the names of its blocks. All YAML of the page can be read.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	const guide = "../../docs/howto/keep-a-fleet.md"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{}
	for _, b := range scripts.Blocks(guide, string(text)) {
		if b.Lang != "yaml" {
			continue
		}
		var doc any
		if err := yaml.Unmarshal([]byte(b.Text), &doc); err != nil {
			t.Errorf("%s:%d: %v", guide, b.Line, err)
		}
		all[b.Name] = doc
	}
	return all
}

var pathWord = regexp.MustCompile(`#\((\w+)=="([^"]*)"\)|[^.]+`)

// at returns what a path of GJSON, as KEDA takes it, selects: names, positions, and the first element with a value, as #(name=="x"). Nil: nothing.
func at(doc any, path string) any {
	for _, word := range pathWord.FindAllStringSubmatch(path, -1) {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[word[0]]
		case []any:
			doc = nil
			for i, one := range v {
				if field, ok := one.(map[string]any); strconv.Itoa(i) == word[0] || ok && word[1] != "" && field[word[1]] == word[2] {
					doc = one
					break
				}
			}
		default:
			return nil
		}
	}
	return doc
}

// What the guide has KEDA ask for is how many jobs there are.
func TestKEDACountsJobs(t *testing.T) {
	trigger := at(manifests(t)["keda"], "spec.triggers.0.metadata")
	asked, err := url.Parse(fmt.Sprint(at(trigger, "url")))
	if err != nil {
		t.Fatal(err)
	}
	f := securedField(t)
	f.broker.Shutdown()
	f.broker.WaitForShutdown()
	config, err := os.ReadFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	asked.Host = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	monitored := strings.Replace(string(config), `# http: "127.0.0.1:8222"`, fmt.Sprintf("http: %q", asked.Host), 1)
	if err := os.WriteFile("nats.conf", []byte(monitored), 0o600); err != nil {
		t.Fatal(err)
	}
	f.restartFrom("nats.conf")
	expect := func(want any, when string) { // the broker is told of some things a moment after they have happened
		t.Helper()
		var got any
		if !eventually(func() bool {
			r, err := http.Get(asked.String())
			if err != nil {
				got = err
				return false
			}
			data, err := io.ReadAll(r.Body)
			var doc any
			if err = errors.Join(err, r.Body.Close(), json.Unmarshal(data, &doc)); err != nil {
				t.Fatal(err)
			}
			got = at(doc, fmt.Sprint(at(trigger, "valueLocation")))
			return got == want
		}) {
			t.Errorf("got %v %s, want %v", got, when, want)
		}
	}
	expect(nil, "before the first job")
	_, of := f.config(func(o *fleet.JobOptions) { o.Address, o.Dir = f.as("coordinator.yml"), f.root })
	c := of.(*coordinator)
	expect(0.0, "before the job has begun")
	if err := c.open(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	expect(1.0, "while there is one job")
	c.nc.Close() // killed
	_ = c.Close()
	expect(1.0, "after its run was killed")
	swept := eventually(func() bool { // the broker may still take the coordinator for connected
		found, err := (Backend{}).Sweep(t.Context(), f.as("coordinator.yml"), fleet.SweepOptions{Jobs: []string{"job"}})
		if err != nil {
			t.Fatal(err)
		}
		return len(found) > 0
	})
	if !swept {
		t.Fatal("nothing was swept")
	}
	expect(0.0, "after it was given up")
}
