package cli

import "testing"

// A command that continues a job names the fleet as the command line did that started it.
func TestFleetFlagsIn(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"here", []string{"run", "w.yml", "--max-parallel", "3"}, ""},
		{"a fleet", []string{"run", "w.yml", "--fleet", "nats://b:4222", "--insecure", "--lease=30s"}, " --fleet nats://b:4222 --insecure --lease 30s"},
		{"credentials", []string{"run", "--credentials", "c/x y.yml", "w.yml"}, " --credentials '/project/c/x y.yml'"},
		{"labels", []string{"map", "--fleet=tls://b", "--requires", "gpu", "--requires=big", "--", "echo", "--fleet", "no"}, " --fleet tls://b --requires gpu --requires big"},
		{"a password", []string{"run", "--fleet", "nats://me:secret@b:4222"}, " --fleet nats://me:xxxxx@b:4222"},
		{"no fleet", []string{"run", "--fleet", "none", "--lease", "20s"}, ""},
		{"nothing behind", []string{"run", "--requires"}, " --requires ''"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fleetFlagsIn(c.args, "/project"); got != c.want {
				t.Errorf("%q: got %q, want %q", c.args, got, c.want)
			}
		})
	}
}
