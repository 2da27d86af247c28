package main

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxPiece is how many bytes are written between two looks at the fault.
const maxPiece = 32 * 1024

// body is the answer with a blob. It asks for the fault at every piece.
type body struct {
	http.ResponseWriter
	request    *http.Request
	faults     *faults
	repository string
	// begun is set with the header; sent is the place in the blob up to which bytes were written.
	begun bool
	sent  int64
}

// Unwrap is for http.ResponseController.
func (b *body) Unwrap() http.ResponseWriter {
	return b.ResponseWriter
}

func (b *body) WriteHeader(status int) {
	if status == http.StatusPartialContent {
		b.sent = rangeStart(b.Header().Get("Content-Range"))
	}
	b.begun = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *body) Write(bytes []byte) (int, error) {
	if !b.begun {
		b.WriteHeader(http.StatusOK)
	}
	written := 0
	for written < len(bytes) {
		fault, _ := b.faults.get(b.repository)
		piece := min(int64(len(bytes)-written), maxPiece)
		switch fault.Kind {
		case "throttle":
			piece = min(piece, max(fault.BytesPerSecond/10, 1))
		case "cut":
			if b.sent >= fault.After {
				b.cut()
			}
			piece = min(piece, fault.After-b.sent)
		}
		n, err := b.ResponseWriter.Write(bytes[written : written+int(piece)])
		written += n
		b.sent += int64(n)
		if err != nil {
			return written, err
		}
		if fault.Kind == "throttle" {
			if err := b.pause(time.Duration(n) * time.Second / time.Duration(fault.BytesPerSecond)); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// cut sends what was written and closes the connection.
func (b *body) cut() {
	b.faults.count(b.repository)
	_ = http.NewResponseController(b.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// pause sends what was written and waits, unless the client goes away.
func (b *body) pause(duration time.Duration) error {
	if err := http.NewResponseController(b.ResponseWriter).Flush(); err != nil {
		return err
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-b.request.Context().Done():
		return io.ErrClosedPipe
	}
}

// rangeStart is the first byte of a Content-Range such as `bytes 5-9/10`.
func rangeStart(header string) int64 {
	first, _, _ := strings.Cut(strings.TrimPrefix(header, "bytes "), "-")
	start, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0
	}
	return start
}
