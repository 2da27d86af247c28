package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// What people may ask for; a mistake in a test must not fill the memory.
const (
	maxFaults     = 1000
	maxFaultBytes = 4096
	maxName       = 255
	maxRate       = 1 << 30
)

// harness is the User-Agent of who pushes images. It meets no faults: it asks by HEAD what is there already.
const harness = "hitless-cluster"

var repositoryName = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// fault is how pulls of one repository fail. Which fields count depends on the kind.
type fault struct {
	Kind string `json:"kind"`
	// throttle: bytes of a blob's body per second, for each answer by itself.
	BytesPerSecond int64 `json:"bytes_per_second"`
	// refuse: the answer. Without Heads only GETs are refused, as by Docker Hub's limit of pulls.
	Status  int    `json:"status"`
	Message string `json:"message"`
	Heads   bool   `json:"heads"`
	// login: what has to be given by HTTP Basic.
	User     string `json:"user"`
	Password string `json:"password"`
	// cut: the connection is closed before this byte of a blob is sent, in this many answers (0: in all).
	After int64 `json:"after"`
	Times int   `json:"times"`
}

func (f *fault) validate() error {
	switch f.Kind {
	case "throttle":
		if f.BytesPerSecond < 1 || f.BytesPerSecond > maxRate {
			return fmt.Errorf("bytes_per_second is %d, outside 1 to %d", f.BytesPerSecond, maxRate)
		}
	case "refuse":
		if f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("status is %d, outside 400 to 599", f.Status)
		}
	case "login":
		if f.User == "" || f.Password == "" || strings.Contains(f.User, ":") {
			return errors.New("user and password must not be empty, and the user must not contain a colon")
		}
	case "cut":
		if f.After < 0 || f.Times < 0 {
			return fmt.Errorf("after is %d and times is %d, but neither may be negative", f.After, f.Times)
		}
	case "unreachable":
	default:
		return fmt.Errorf("kind is %q: use throttle, refuse, login, cut or unreachable", f.Kind)
	}
	return nil
}

// faults serves /faults/<repository> (PUT, DELETE) itself and passes everything else on to the registry: pulls of a repository
// that has a fault meet it. A change also holds for answers that are under way.
type faults struct {
	registry http.Handler
	mutex    sync.Mutex
	of       map[string]*fault
}

func newFaults(registry http.Handler) *faults {
	return &faults{registry: registry, of: map[string]*fault{}}
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if repository, ok := strings.CutPrefix(r.URL.Path, "/faults/"); ok {
		f.change(w, r, repository)
		return
	}
	repository, blob := pulled(r)
	if fault, ok := f.get(repository); ok {
		switch {
		case fault.Kind == "unreachable":
			panic(http.ErrAbortHandler)
		case fault.Kind == "refuse" && (fault.Heads || r.Method != http.MethodHead):
			refuse(w, fault.Status, "UNAVAILABLE", fault.Message)
			return
		case fault.Kind == "login" && !fault.admits(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="hitless"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
			return
		}
	}
	if repository != "" && blob && r.Method == http.MethodGet {
		w = &body{ResponseWriter: w, request: r, faults: f, repository: repository}
	}
	f.registry.ServeHTTP(w, r)
}

// pulled is the repository that is pulled from, and whether a blob of it is. It is empty if nothing is pulled.
func pulled(r *http.Request) (repository string, blob bool) {
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !ok || !reads || r.UserAgent() == harness {
		return "", false
	}
	if end := strings.LastIndex(path, "/manifests/"); end >= 0 {
		return path[:end], false
	}
	if end := strings.LastIndex(path, "/blobs/"); end >= 0 {
		return path[:end], true
	}
	return "", false
}

func (f *fault) admits(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && user == f.User && password == f.Password
}

// change sets or removes the fault of a repository.
func (f *faults) change(w http.ResponseWriter, r *http.Request, repository string) {
	if len(repository) > maxName || !repositoryName.MatchString(repository) {
		http.Error(w, fmt.Sprintf("%q is no name of a repository, such as team/web", repository), http.StatusBadRequest)
		return
	}
	switch r.Method {
	case http.MethodPut:
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFaultBytes))
		decoder.DisallowUnknownFields()
		wanted := &fault{}
		err := decoder.Decode(wanted)
		if err == nil {
			err = wanted.validate()
		}
		if err == nil {
			err = f.set(repository, wanted)
		}
		if err != nil {
			http.Error(w, "the fault cannot be set: "+err.Error(), http.StatusBadRequest)
			return
		}
	case http.MethodDelete:
		f.clear(repository)
	default:
		http.Error(w, "use PUT or DELETE", http.StatusMethodNotAllowed)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *faults) set(repository string, wanted *fault) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if _, known := f.of[repository]; !known && len(f.of) >= maxFaults {
		return fmt.Errorf("%d repositories have faults already: remove some by DELETE", maxFaults)
	}
	f.of[repository] = wanted
	return nil
}

func (f *faults) clear(repository string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.of, repository)
}

// get is a copy of the repository's fault.
func (f *faults) get(repository string) (fault, bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if found, ok := f.of[repository]; ok {
		return *found, true
	}
	return fault{}, false
}

// count notes that an answer was cut. The last one takes the fault away.
func (f *faults) count(repository string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	found, ok := f.of[repository]
	if !ok || found.Kind != "cut" || found.Times == 0 {
		return
	}
	found.Times--
	if found.Times == 0 {
		delete(f.of, repository)
	}
}

// refuse answers as the registry API does: clients show the message.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
