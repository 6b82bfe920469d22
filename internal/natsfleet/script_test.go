package natsfleet

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"prodigy/internal/cli"
	"prodigy/internal/fleet"
	"prodigy/internal/testenv/scripts"
)

// The test binary is prodigy too.
func TestMain(m *testing.M) {
	if strings.HasSuffix(os.Args[0], ".test") {
		_ = flag.Set("test.parallel", strconv.Itoa(max(14, 4*runtime.GOMAXPROCS(0)))) // these tests wait most of their time
	}
	scripts.Main(m, map[string]func(){
		"prodigy": func() { os.Exit(cli.Main(os.Args[1:], Backend{})) },
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	scripts.Run(t, testscript.Params{Dir: "../../testdata/script/fleet"})
}

// What agents ask of their job, they ask from workers, too.
func TestScriptsOfAgentsOnAFleet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	if runtime.GOOS == "windows" {
		t.Skip("the scripts need a POSIX sh")
	}
	const dir = "../../testdata/script/"
	scripts.Run(t, testscript.Params{
		Files: []string{dir + "agent_money.txtar", dir + "agent_quota.txtar", dir + "agent_stalls.txtar"},
		Setup: func(env *testscript.Env) error { return joinFleet(t, env) },
	})
}

// joinFleet has the jobs of a script run on a worker of 8 slots, in a fleet of its own.
func joinFleet(t *testing.T, env *testscript.Env) error {
	b, err := startBroker(fleet.BrokerOptions{Listen: "127.0.0.1:0", Store: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		return err
	}
	env.Setenv("PRODIGY_FLEET", b.ClientURL())
	w := exec.Command("prodigy", "worker", "--slots", "8", "--name", "w")
	w.Dir, w.Env = env.WorkDir, env.Vars
	env.Defer(func() {
		_ = w.Process.Signal(syscall.SIGTERM)
		_ = w.Wait()
		b.Shutdown()
		b.WaitForShutdown()
	})
	return w.Start()
}
