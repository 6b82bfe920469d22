package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigNamesTheClaudeCommandAsTextOrList(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"agent: {command: \"codex  exec -q\"}\n", []string{"codex", "exec", "-q"}},
		{"agent:\n  command: [my claude, --print]\n", []string{"my claude", "--print"}},
	} {
		r := configReader{file: "config.yml"}
		got := r.read([]byte(c.in)).Claude
		if diff := cmp.Diff(c.want, got); diff != "" || len(r.problems) > 0 {
			t.Errorf("%q: %v\n%s", c.in, r.problems, diff)
		}
	}
}

func TestConfigIsReadStrictly(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"agent: {comand: x}\n", `config.yml:1:9: unknown key "comand"`},
		{"agents: {}\n", `config.yml:1:1: unknown key "agents"`},
		{"agent: {command: x}\nagent: {command: y}\n", `config.yml:2:1: the key "agent" is given twice`},
		{"agent: {command: 7}\n", "config.yml:1:18: agent.command must be"},
		{"agent: {command: []}\n", "config.yml:1:18: agent.command must be"},
		{"agent: {command: [[a]]}\n", "config.yml:1:18: agent.command must be"},
		{"agent: x\n", "config.yml:1:8: agent must be a mapping"},
		{"- a\n", "config.yml:1:1: the configuration must be a mapping"},
		{"fleet: nats://a\n", "config.yml:1:8: fleet must be a mapping with the keys url, "},
		{"fleet: {urls: nats://a}\n", `config.yml:1:9: unknown key "urls" in fleet`},
		{"fleet: {url: [a]}\n", "config.yml:1:14: fleet.url must be a text"},
		{"fleet: {insecure: 7}\n", "config.yml:1:19: fleet.insecure must be true or false"},
		{"fleet: {lease: soon}\n", "config.yml:1:16: fleet.lease: "},
		{"fleet: {broker_patience: 7 years}\n", "config.yml:1:26: fleet.broker_patience: "},
		{"fleet: {trust: {a: b}}\n", "config.yml:1:16: fleet.trust must be a text"},
		{"fleet: {cert: a}\n", "config.yml:1:8: fleet.cert and fleet.key need each other"},
		{"a: [\n", "config.yml:1:1: this is not YAML"},
	} {
		r := configReader{file: "config.yml"}
		r.read([]byte(c.in))
		if len(r.problems) == 0 || !strings.HasPrefix(r.problems[0].String(), c.want) {
			t.Errorf("%q: got %v, want %s", c.in, r.problems, c.want)
		}
	}
}
