//go:build unix

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// fleetDir is what fleet init makes.
func (r *round) fleetDir() string { return filepath.Join(r.dir, "fleet") }

func (r *round) scheme() string {
	if r.secure {
		return "tls://"
	}
	return "nats://"
}

// initFleet makes credentials for all, and lets the lab look at everything at the broker.
func (r *round) initFleet() error {
	args := []string{"fleet", "init", r.fleetDir(), "--host", "127.0.0.1"}
	for i := range workers {
		args = append(args, "--worker", workerName(i))
	}
	// Certificates begin to be valid an hour before that. Nobody's clock is to be before it.
	if err := os.WriteFile(r.clock("init"), []byte(strconv.Itoa(-int(r.skew/time.Second))), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(r.bin, "prodigy"), args...)
	cmd.Env = append(os.Environ(), "PRODIGY_HOME="+filepath.Join(r.dir, "home"), clockVariable+"="+r.clock("init"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fleet init: %w: %s", err, out)
	}
	var err error
	if r.lab, err = nkeys.CreateUser(); err != nil {
		return err
	}
	public, err := r.lab.PublicKey()
	if err != nil {
		return err
	}
	path := filepath.Join(r.fleetDir(), "broker", "users.conf")
	users, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	list, ok := strings.CutSuffix(strings.TrimSpace(string(users)), "]")
	if !ok {
		return fmt.Errorf("%s does not end with ]", path)
	}
	return os.WriteFile(path, []byte(list+"  { nkey: "+public+" }\n]\n"), 0o600)
}

// credentials returns the file of the credentials that a command has, or "" if it has no file.
func (r *round) credentials(args []string) string {
	switch {
	case !r.secure || args[0] == "broker":
		return ""
	case args[0] == "worker":
		return filepath.Join(r.fleetDir(), "worker-"+args[2]+".yml")
	}
	return filepath.Join(r.fleetDir(), "coordinator.yml")
}

// asLab returns how the lab connects.
func (r *round) asLab() []nats.Option {
	if !r.secure {
		return nil
	}
	public, _ := r.lab.PublicKey()
	return []nats.Option{nats.Nkey(public, r.lab.Sign), nats.RootCAs(filepath.Join(r.fleetDir(), "broker", "ca.pem"))}
}
