package limit

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func windows(t interface {
	Helper()
	Fatal(...any)
}, texts ...string,
) (ws Windows) {
	t.Helper()
	for _, text := range texts {
		w, err := read[Window](text)
		if err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	return ws
}

// TestWindowsOpenAndCloseByTheClockOfTheirZone: times are UTC. In Berlin the clock goes from 02:00 to 03:00
// on 29 March 2026 at 01:00 UTC, and from 03:00 back to 02:00 on 25 October at 01:00 UTC.
func TestWindowsOpenAndCloseByTheClockOfTheirZone(t *testing.T) {
	for name, c := range map[string]struct {
		windows string
		now     string
		open    bool
		until   string
	}{
		"in the night":                      {"22:00-06:00 Europe/Berlin", "2026-01-10T23:30", true, "2026-01-11T05:00"},
		"before the night":                  {"22:00-06:00 Europe/Berlin", "2026-01-10T20:59", false, "2026-01-10T21:00"},
		"at its first moment":               {"22:00-06:00 Europe/Berlin", "2026-01-10T21:00", true, "2026-01-11T05:00"},
		"at its end":                        {"22:00-06:00 Europe/Berlin", "2026-01-11T05:00", false, "2026-01-11T21:00"},
		"in summer":                         {"22:00-06:00 Europe/Berlin", "2026-07-10T20:00", true, "2026-07-11T04:00"},
		"the night that is an hour shorter": {"22:00-06:00 Europe/Berlin", "2026-03-28T22:00", true, "2026-03-29T04:00"},
		"the night that is an hour longer":  {"22:00-06:00 Europe/Berlin", "2026-10-24T21:00", true, "2026-10-25T05:00"},
		"a beginning that is left out":      {"02:30-05:00 Europe/Berlin", "2026-03-29T00:59", false, "2026-03-29T01:30"},
		"an hour that is left out":          {"02:15-02:45 Europe/Berlin", "2026-03-29T02:00", false, "2026-03-30T00:15"},
		"an hour that comes twice":          {"02:00-03:00 Europe/Berlin", "2026-10-25T00:30", true, "2026-10-25T02:00"},
		"the whole day":                     {"00:00-24:00 UTC", "2026-01-10T12:00", true, "2026-01-17T12:00"},
		"until midnight":                    {"18:00-24:00 UTC", "2026-01-10T23:59", true, "2026-01-11T00:00"},
		"two that touch":                    {"01:00-02:00 UTC, 02:00-03:00 UTC", "2026-01-10T01:30", true, "2026-01-10T03:00"},
		"two that overlap":                  {"22:00-02:00 UTC, 01:00-05:00 UTC", "2026-01-10T23:00", true, "2026-01-11T05:00"},
		"between two":                       {"01:00-02:00 UTC, 04:00-05:00 UTC", "2026-01-10T03:00", false, "2026-01-10T04:00"},
		"a zone of half hours":              {"09:00-10:00 Asia/Kolkata", "2026-01-10T03:30", true, "2026-01-10T04:30"},
		"a zone beyond the date line":       {"22:00-06:00 Pacific/Kiritimati", "2026-01-10T10:00", true, "2026-01-10T16:00"},
	} {
		at := func(text string) time.Time {
			v, err := time.Parse("2006-01-02T15:04", text)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		open, until := windows(t, strings.Split(c.windows, ", ")...).At(at(c.now))
		if open != c.open || !until.Equal(at(c.until)) {
			t.Errorf("%s: got %v until %s, want %v until %s", name, open, until.UTC().Format("2006-01-02T15:04"), c.open, c.until)
		}
	}
}

// TestNothingChangesBeforeTheTimeThatIsTold and then it does, unless that is the bound of a week.
func TestNothingChangesBeforeTheTimeThatIsTold(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Australia/Lord_Howe"}
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string {
			return time.Unix(0, 0).UTC().Add(time.Duration(rapid.IntRange(0, 95).Draw(t, name)) * 15 * time.Minute).Format("15:04")
		}
		from, to := text("from"), text("to")
		if from == to {
			return
		}
		ws := windows(t, from+"-"+to+" "+rapid.SampledFrom(zones).Draw(t, "zone"))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 366*24*60).Draw(t, "minute")) * time.Minute)
		open, until := ws.At(now)
		if !until.After(now) {
			t.Fatalf("%s at %v: changes at %v", ws, now, until)
		}
		if again, _ := ws.At(until.Add(-time.Minute)); again != open {
			t.Fatalf("%s at %v: %v until %v, and not a minute before", ws, now, open, until)
		}
		if again, _ := ws.At(until); again == open && until.Before(now.AddDate(0, 0, 7)) {
			t.Fatalf("%s at %v: still %v at %v", ws, now, open, until)
		}
	})
}

func TestWindowsThatMakeNoSenseAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "invalid window",
		"22:00":               "invalid window",
		"22-6":                "invalid window",
		"25:00-26:00":         "invalid window",
		"24:00-06:00":         "invalid window",
		"22:00-06:60":         "invalid window",
		"22:00-22:00":         "is empty",
		"22:00-06:00 Berlin":  `unknown time zone "Berlin"`,
		"22:00-06:00 Local":   "unknown time zone",
		"22:00-06:00 ../etc":  "unknown time zone",
		"-1:00-06:00":         "invalid window",
		"22:00 - 06:00 (UTC)": "invalid window",
	} {
		if _, err := read[Window](text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestGuardsCloseBelowTheirLimitAndOpenWithSomeMore(t *testing.T) {
	amount := func(text string) *Amount {
		a, err := read[Amount](text)
		if err != nil {
			t.Fatal(err)
		}
		return &a
	}
	for name, c := range map[string]struct {
		guards Guards
		m      Machine
		was    bool
		want   string
	}{
		"no guard":                   {m: Machine{Load: 99}},
		"load below":                 {guards: Guards{Load: 0.9}, m: Machine{Load: 3.5, CPUs: 4}},
		"load above":                 {guards: Guards{Load: 0.9}, m: Machine{Load: 4, CPUs: 4}, want: "the load per CPU is 1.00"},
		"load that fell a little":    {guards: Guards{Load: 0.9}, m: Machine{Load: 3.5, CPUs: 4}, was: true, want: "the load per CPU is"},
		"load that fell":             {guards: Guards{Load: 0.9}, m: Machine{Load: 3, CPUs: 4}, was: true},
		"share of memory":            {guards: Guards{MinFreeMemory: amount("10%")}, m: Machine{MemoryFree: 5e9, MemoryTotal: 64e9}, want: "available memory is 5.0 GB, min_free_memory is 6.4 GB"},
		"enough memory":              {guards: Guards{MinFreeMemory: amount("10%")}, m: Machine{MemoryFree: 7e9, MemoryTotal: 64e9}},
		"memory that is not known":   {guards: Guards{MinFreeMemory: amount("10%")}},
		"disk":                       {guards: Guards{MinFreeDisk: amount("5GB")}, m: Machine{DiskFree: 4e9, DiskTotal: 9e9}, want: "free disk space is 4.0 GB, min_free_disk is 5.0 GB"},
		"disk with just some more":   {guards: Guards{MinFreeDisk: amount("5GB")}, m: Machine{DiskFree: 51e8, DiskTotal: 9e9}, was: true, want: "free disk space"},
		"disk that has been emptied": {guards: Guards{MinFreeDisk: amount("5GB")}, m: Machine{DiskFree: 53e8, DiskTotal: 9e9}, was: true},
	} {
		if got := c.guards.Closed(c.m, c.was); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	for _, text := range []string{"", "5", "GB", "0%", "100%", "-5%", "5 XB", "1e999GB", "NaN%", "0GB"} {
		if a, err := read[Amount](text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, a)
		}
	}
}

func TestThisMachineCanBeMeasured(t *testing.T) {
	m, err := MachineNow(t.TempDir(), "/")
	if !CanMeasure {
		return
	}
	if err != nil || m.CPUs < 1 || m.MemoryTotal == 0 || m.MemoryFree > m.MemoryTotal || m.DiskTotal == 0 || m.DiskFree > m.DiskTotal {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := MachineNow("/no such directory"); err == nil {
		t.Error("a directory that is missing has a disk")
	}
}

// read reads a text as a value of type T.
func read[T any, P interface {
	*T
	ReadText(text string) error
}](text string,
) (v T, err error) {
	err = P(&v).ReadText(text)
	return v, err
}
