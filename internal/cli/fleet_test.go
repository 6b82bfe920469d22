package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"prodigy/internal/fleet"
	"prodigy/internal/term"
)

// A command that continues a job names the fleet as the command line did that started it.
func TestRecordedFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"here", []string{"run", "w.yml", "--max-parallel", "3"}, ""},
		{"a fleet", []string{"run", "w.yml", "--fleet", "nats://b:4222", "--insecure", "--lease=30s"}, " --fleet nats://b:4222 --insecure --lease 30s"},
		{"credentials", []string{"run", "--credentials", "c/x y.yml", "w.yml"}, " --credentials '/project/c/x y.yml'"},
		{"labels", []string{"map", "--fleet=tls://b", "--requires", "gpu", "--requires=big", "--", "echo", "--fleet", "no"}, " --fleet tls://b --requires gpu --requires big"},
		{"a password", []string{"run", "--fleet", "nats://me:secret@b:4222"}, " --fleet nats://xxxxx@b:4222"},
		{"no fleet", []string{"run", "--fleet", "none", "--lease", "20s"}, ""},
		{"nothing behind", []string{"run", "--requires"}, " --requires ''"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shownFlags(recordedFlags(c.args, "/project")); got != c.want {
				t.Errorf("%q: got %q, want %q", c.args, got, c.want)
			}
		})
	}
}

// asked is a backend that notes what it is asked for, and does none of it.
type asked struct {
	fleet.Backend
	jobs    []fleet.JobOptions
	workers []fleet.WorkerOptions
	lists   []fleet.Address
}

var errAsked = errors.New("only asked")

func (a *asked) Join(_ context.Context, o fleet.JobOptions) (fleet.Coordinator, error) {
	a.jobs = append(a.jobs, o)
	return nil, errAsked
}

func (a *asked) Work(_ context.Context, o fleet.WorkerOptions) error {
	a.workers = append(a.workers, o)
	return errAsked
}

func (a *asked) Nodes(_ context.Context, o fleet.Address, _ ...string) ([]fleet.Node, error) {
	a.lists = append(a.lists, o)
	return nil, errAsked
}

// What the configuration says of a fleet is what its commands join it with, unless the environment, or before that a flag, says otherwise.
func TestTheConfigurationOfAFleetIsUsed(t *testing.T) {
	home := t.TempDir()
	at := func(name string) string { return filepath.Join(home, name) }
	writeText(t, at("c.yml"), "role: coordinator\nurl: tls://c:4222\nca: PEM\nseed: SEED\nsign: SIGN\ntrust: [T0]\n")
	writeText(t, at("w.yml"), "mode: mapreduce\nmap: {input: [1], agent_template: [{shell: \"true\"}]}\n")
	addressed := fleet.Address{URL: "tls://b:4222"}
	of := func(change func(*fleet.Address)) fleet.Address {
		a := addressed
		change(&a)
		return a
	}
	byFile := fleet.Address{URL: "tls://c:4222", Credentials: fleet.Credentials{
		URL: "tls://c:4222", Role: fleet.CoordinatorRole, CAPEM: "PEM", Seed: "SEED", Sign: "SIGN", Trust: []string{"T0"},
	}}
	for name, c := range map[string]struct {
		config   string // what is in fleet, besides the URL if it has none
		env      map[string]string
		flags    []string
		want     fleet.Address
		lease    time.Duration // 0: the default
		patience time.Duration
		trust    []string // of a worker, besides that of the address
	}{
		"url":                    {want: addressed},
		"ca":                     {config: "ca: d/ca.pem", want: of(func(a *fleet.Address) { a.CA = at("d/ca.pem") })},
		"an absolute ca":         {config: "ca: /etc/ca.pem", want: of(func(a *fleet.Address) { a.CA = "/etc/ca.pem" })},
		"cert and key":           {config: "cert: c.pem, key: k.pem", want: of(func(a *fleet.Address) { a.Cert, a.Key = at("c.pem"), at("k.pem") })},
		"nkey":                   {config: "nkey: n.seed", want: of(func(a *fleet.Address) { a.NKey = at("n.seed") })},
		"insecure":               {config: "insecure: true", want: of(func(a *fleet.Address) { a.Insecure = true })},
		"lease":                  {config: "lease: 2m", want: addressed, lease: 2 * time.Minute},
		"broker_patience":        {config: "broker_patience: 1h", want: addressed, patience: time.Hour},
		"trust":                  {config: "trust: K1", want: addressed, trust: []string{"K1"}},
		"several to trust":       {config: "trust: [K1, K2]", want: addressed, trust: []string{"K1", "K2"}},
		"credentials":            {config: "credentials: c.yml", want: byFile},
		"credentials beside url": {config: "credentials: c.yml", want: fleet.Address{URL: "tls://b:4222", Credentials: byFile.Credentials}},

		"the environment": {
			config: "ca: ca.pem, cert: c.pem, key: k.pem, nkey: n.seed",
			env: map[string]string{
				"PRODIGY_FLEET": "tls://e:4222", "PRODIGY_FLEET_CA": "/e/ca", "PRODIGY_FLEET_CERT": "/e/cert", "PRODIGY_FLEET_KEY": "/e/key", "PRODIGY_FLEET_NKEY": "/e/nkey",
			},
			want: fleet.Address{URL: "tls://e:4222", CA: "/e/ca", Cert: "/e/cert", Key: "/e/key", NKey: "/e/nkey"},
		},
		"a certificate of the environment": {
			config: "cert: c.pem, key: k.pem", env: map[string]string{"PRODIGY_FLEET_CERT": "/e/cert", "PRODIGY_FLEET_KEY": "/e/key"},
			want: of(func(a *fleet.Address) { a.Cert, a.Key = "/e/cert", "/e/key" }),
		},
		"credentials of the environment": {env: map[string]string{"PRODIGY_FLEET_CREDENTIALS": at("c.yml")}, want: byFile},
		"flags": {
			config: "lease: 2m, broker_patience: 1h, nkey: n.seed", env: map[string]string{"PRODIGY_FLEET": "tls://e:4222"},
			flags: []string{"--lease", "20s", "--broker-patience", "3m"}, want: fleet.Address{URL: "tls://e:4222", NKey: at("n.seed")}, lease: 20 * time.Second, patience: 3 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PRODIGY_HOME", home)
			for _, name := range []string{"", "_CREDENTIALS", "_CA", "_CERT", "_KEY", "_NKEY"} {
				t.Setenv("PRODIGY_FLEET"+name, c.env["PRODIGY_FLEET"+name])
			}
			config := c.config
			if name != "credentials" { // which name a broker too
				config = "url: 'tls://b:4222'" + term.Prefixed(", ", config)
			}
			writeText(t, at("config.yml"), "fleet: {"+config+"}\n")
			backend := new(asked)
			do := func(args ...string) {
				t.Helper()
				root := newRootCommand(&console{out: io.Discard, err: io.Discard, backend: backend})
				root.SetArgs(args)
				if err := root.Execute(); !errors.Is(err, errAsked) {
					t.Errorf("%q: got %v", args, err)
				}
			}
			do(append([]string{"run", at("w.yml")}, c.flags...)...)
			do("fleet", "ls")
			do("worker", "--name", "w")
			if len(backend.jobs) != 1 || len(backend.workers) != 1 || len(backend.lists) != 1 {
				t.Fatalf("got %+v", backend)
			}
			j, w := backend.jobs[0], backend.workers[0]
			if got := []fleet.Address{j.Address, backend.lists[0]}; !reflect.DeepEqual(got, []fleet.Address{c.want, c.want}) {
				t.Errorf("of a job and of fleet ls:\n got %+v\nwant %+v", got, c.want)
			}
			lease := c.lease
			if lease == 0 {
				lease = fleet.DefaultLease
			}
			if j.Lease != lease || j.Patience != c.patience {
				t.Errorf("got a lease of %s and a patience of %s", j.Lease, j.Patience)
			}
			c.want.Trust = slices.Concat(c.want.Trust, c.trust)
			if !reflect.DeepEqual(w.Address, c.want) {
				t.Errorf("of a worker:\n got %+v\nwant %+v", w.Address, c.want)
			}
		})
	}
}
