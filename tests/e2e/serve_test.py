"""`train --serve`: the page, the figures and the metrics of a run that goes on, to its own host alone."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

from tests.e2e.cli import ONEFLOW, FolderCase, read_metrics, run

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\]*",?)+)\})? (-?[0-9.e+-]+|NaN|[+-]Inf)')


def parse_metrics(text):
    """{(name, labels): value} of the text format of Prometheus, version 0.0.4; each name has its help and its type first."""
    samples, known = {}, []
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# "):
            _, kind, name, _ = line.split(" ", 3)
            known = [name] if kind == "HELP" else known + [line.split(" ", 2)[2]]
        else:
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert known == [name, name + " gauge"], (known, line)
            key = (name, labels or "")
            assert key not in samples, line
            samples[key] = float(value)
    return samples


class ServeTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "some words to learn from. " * 50)
        run("model", "gpt", "--layers=2", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2,data=2", "--batch=8", "--micro_batches=2", "--out=gpt.plan", cwd=cls.dir)

    def start(self, *flags):
        """A run without end that has done some steps, and what serves it. Nobody reads its other steps: when the pipe is full, what is
        shown stays as it is."""
        process = subprocess.Popen(
            [ONEFLOW, "train", "--plan=gpt.plan", "--data=text.txt", "--steps=1000000", "--format=json", *flags], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        lines = []
        while not lines or "is shown at" not in lines[-1]:
            lines.append(process.stderr.readline())
            self.assertNotEqual(lines[-1], "", lines)
        url = re.fullmatch(r"oneflow: the run is shown at (http://127\.0\.0\.1:\d+/)\n", lines[-1]).group(1)
        told = [json.loads(process.stdout.readline()) for _ in range(12)]
        self.assertEqual([line["step"] for line in told], list(range(12)))
        return process, url

    def get(self, url, status=200, **request):
        """(headers, text) of an answer, which has to be the status."""
        try:
            answer = urllib.request.urlopen(urllib.request.Request(url, **request), timeout=60)
        except urllib.error.HTTPError as refused:
            answer = refused
        with answer:
            self.assertEqual(answer.status, status, url)
            return answer.headers, answer.read().decode()

    def end(self, process):
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1, error)
        self.assertIn("oneflow: error: interrupted", error)

    def test_shows_a_run_that_goes_on(self):
        process, url = self.start("--serve=0", "--metrics=metrics.jsonl", "--eval_data=text.txt", "--eval_every=5")
        headers, page = self.get(url)
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        for part in ['<section id="live" hidden></section>', 'id="simulation"', 'fetch("live.json"']:
            self.assertIn(part, page)
        self.assertEqual(self.get(url + "healthz")[1], "ok\n")
        self.assertEqual(self.get(url + "live.json?a=b", method="HEAD")[1], "")

        headers, text = self.get(url + "live.json")
        self.assertEqual(headers["Content-Type"], "application/json")
        live = json.loads(text)
        self.assertEqual(list(live), ["step", "last_step", "loss", "eval_loss", "learning_rate", "grad_norm", "tokens_per_second", "step_seconds",
                                      "mfu", "left_seconds", "losses", "eval_losses", "step_times", "promised", "took", "stages", "standstill"])
        rows = read_metrics(self.dir + "/metrics.jsonl")[:live["step"]]
        self.assertGreaterEqual(live["step"], 12)
        self.assertEqual(live["last_step"], 1000000)
        for name, curve in [("loss", "losses"), ("eval_loss", "eval_losses"), ("step_seconds", "step_times")]:
            points = [(row["step"], row[name]) for row in rows if name in row]
            self.assertEqual(live[curve], {"every": 1, "step": [step for step, _ in points], "last": [value for _, value in points]})
        for name in ["loss", "learning_rate", "grad_norm", "tokens_per_second", "step_seconds", "mfu"]:
            self.assertEqual(live[name], rows[-1][name])
        times = sorted(live["step_times"]["last"][1:][-101:])
        self.assertEqual(live["took"]["step_seconds"], times[len(times) // 2])
        self.assertEqual(live["promised"]["step_seconds"], rows[-1]["promised_step_seconds"])
        plan = json.loads(run("explain", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0])
        self.assertEqual([(stage["devices"], stage["bytes"]) for stage in live["stages"]],
                         [(stage["devices"], stage["arena_bytes"]) for stage in plan["stages"]])
        for stage in live["stages"]:
            self.assertAlmostEqual(sum(stage["promised"].values()), live["promised"]["step_seconds"])
        self.assertIsNone(live["standstill"])

        headers, text = self.get(url + "metrics")
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        samples = parse_metrics(text)
        row = read_metrics(self.dir + "/metrics.jsonl")[int(samples["oneflow_train_step", ""]) - 1]
        for name in ["loss", "learning_rate", "grad_norm", "tokens_per_second", "step_seconds", "mfu", "promised_step_seconds"]:
            self.assertEqual(samples["oneflow_train_" + name, ""], row[name])
        for device in range(4):
            stage = plan["stages"][device // 2]
            self.assertEqual(samples["oneflow_planned_bytes", f'device="{device}",stage="{device // 2}",memory="device"'], stage["arena_bytes"])
        self.assertEqual(samples["oneflow_train_stands_still", ""], 0)

        port = int(url.split(":")[2].strip("/"))
        error = run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=1", f"--serve={port}", "--metrics=other.jsonl", cwd=self.dir, code=2)[1]
        self.assertIn(f"error: --serve=127.0.0.1:{port}: another program has this port; give another one, or 0 for any that is free\n", error)
        self.assertFalse(os.path.exists(self.dir + "/other.jsonl"))

        self.get(url, 403, headers={"Host": f"evil.example:{port}"})
        self.get(url + "metrics", 200, headers={"Host": f"localhost:{port}"})
        self.assertEqual(self.get(url, 405, method="POST", data=b"x" * 20000)[0]["Allow"], "GET, HEAD")
        for path in ["other", "../metrics.jsonl", "metrics.jsonl", "metrics/"]:
            self.get(url + path, 404)
        self.get(url, 400, headers={"X-Long": "x" * 60000})
        self.get(url, 400, headers={f"X-{i}": "x" * 1000 for i in range(60)})

        # Those who connect and say nothing keep nothing from ending.
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(6)]
        self.end(process)
        for connection in silent:
            connection.close()
        with self.assertRaises(ConnectionRefusedError):
            http.client.HTTPConnection("127.0.0.1", port).connect()

    @unittest.skipUnless(BROWSER, "there is no Chromium: `tools/install_deps browser` installs one")
    def test_a_browser_draws_it(self):
        process, url = self.start("--serve=0", "--eval_data=text.txt", "--eval_every=5")
        for size in ["1400,900", "500,900"]:
            done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + self.dir + "/browser",
                                   "--enable-logging=stderr", "--virtual-time-budget=3000", "--window-size=" + size, "--dump-dom", url],
                                  capture_output=True, text=True, check=True, timeout=120, env=dict(os.environ, HOME=self.dir))
            self.assertNotIn("CONSOLE", done.stderr)
            live = done.stdout[done.stdout.index('<section id="live">'):].split("</section>")[0]
            self.assertRegex(live, r">step [0-9,]+ of 1,000,000, .* left</p>")
            self.assertEqual(live.count('<path class="curve" d="M'), 2)
            self.assertIn('<line class="promise"', live)
            self.assertIn('<circle class="dot"', live)
            for words in ["<dt>loss</dt>", "<dt>validation loss</dt>", "<h2>Promised and took</h2>", "<small>stage 1, promised</small>"]:
                self.assertIn(words, live)
            self.assertNotIn("NaN", live)
        self.end(process)

    def test_process_0_serves_for_all(self):
        process, url = self.start("--serve=127.0.0.1:0", "--processes=2")
        live = json.loads(self.get(url + "live.json")[1])
        while not all(stage["waits"] for stage in live["stages"]):  # they come once a second
            self.assertIsNone(process.poll())
            live = json.loads(self.get(url + "live.json")[1])
        self.assertTrue(all(seconds >= 0 for stage in live["stages"] for seconds in stage["waits"].values()))
        waits = {key[1] for key in parse_metrics(self.get(url + "metrics")[1]) if key[0] == "oneflow_train_wait_seconds"}
        self.assertEqual(waits, {f'stage="{s}",stream="{stream}"' for s in range(2) for stream in live["stages"][s]["waits"]})
        self.end(process)

    def test_an_address_that_is_none_is_refused(self):
        for value, words in [("http", "is not [HOST:]PORT; give a port up to 65535"), ("65536", "is not [HOST:]PORT"), ("::1", "is not [HOST:]PORT"),
                             ("192.0.2.1:0", "cannot listen at 192.0.2.1; give an address of this host")]:
            error = run("train", "--plan=gpt.plan", "--data=text.txt", "--steps=1", "--serve=" + value, cwd=self.dir, code=2)[1]
            self.assertIn(f"error: --serve={value}: {words}", error)


if __name__ == "__main__":
    unittest.main()
