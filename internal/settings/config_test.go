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
		got, err := parseConfig("config.yml", []byte(c.in))
		if diff := cmp.Diff(c.want, []string(got.Agent.Command)); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", c.in, err, diff)
		}
	}
}

func TestConfigIsReadStrictly(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"agent: {comand: x}\n", `config.yml:1:9: unknown key "comand"`},
		{"agents: {}\n", `config.yml:1:1: unknown key "agents"`},
		{"agent: {command: x}\nagent: {command: y}\n", `config.yml:2:1: key "agent" is set twice`},
		{"agent: {command: ' '}\n", "config.yml:1:18: agent.command must be"},
		{"agent: {command: []}\n", "config.yml:1:18: agent.command must be"},
		{"agent: {command: [[a]]}\n", "config.yml:1:18: agent.command must be"},
		{"agent: x\n", "config.yml:1:8: agent must be a mapping"},
		{"- a\n", "config.yml:1:1: the configuration must be a mapping"},
		{"fleet: nats://a\n", "config.yml:1:8: fleet must be a mapping"},
		{"fleet: {urls: nats://a}\n", `config.yml:1:9: unknown key "urls" in fleet`},
		{"fleet: {url: [a]}\n", "config.yml:1:14: url must be a string"},
		{"fleet: {insecure: 7}\n", "config.yml:1:19: insecure must be true or false"},
		{"fleet: {lease: soon}\n", "config.yml:1:16: lease: "},
		{"fleet: {broker_patience: 7 years}\n", "config.yml:1:26: broker_patience: "},
		{"fleet: {trust: {a: b}}\n", "config.yml:1:16: trust must be a string"},
		{"fleet: {cert: a}\n", "config.yml:1:8: fleet.cert and fleet.key must be set together"},
		{"clean: {keep: soon}\n", "config.yml:1:15: keep: "},
		{"clean: {kept: 1d}\n", `config.yml:1:9: unknown key "kept" in clean`},
		{"a: [\n", "config.yml:1:1: a value is required here"},
	} {
		if _, err := parseConfig("config.yml", []byte(c.in)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.in, err, c.want)
		}
	}
}
