"""oneflow simulate: a plan on a virtual clock, and its trace beside the one of `train`."""
import collections
import json
import os
import re
import unittest

from tests.e2e.cli import TwoStagesCase, run

CLUSTERS = os.path.abspath("examples/clusters")


def tracks(trace):
    """By (rank, stream): how often each slice of program train is there."""
    names, slices = {}, collections.Counter()
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["args"]["program"] == "train":
            # Processes of what is predicted are counted from a million on.
            slices[event["pid"] % 1000000, names[event["pid"], event["tid"]], event["name"], event["args"]["step"]] += 1
    return slices


class SimulateTest(TwoStagesCase):
    def test_text_names_what_counts(self):
        text = self.simulate()
        for words in ["a step: ", "bubble", "exposed exchange", "idle", "hidden exchange", "stage 0, 1 device", "stage 1, 1 device", "critical path", "costliest boxing", "no --cluster"]:
            self.assertIn(words, text)

    def test_rates_where_weights_lag_are_those_of_one_step(self):
        told = {}
        for schedule in "1f1b", "2bw":
            run("compile", "--graph=gpt.textproto", "--mesh=pipe=2", "--batch=8", "--micro_batches=4", "--clip=0",
                "--schedule=" + schedule, "--out=rates.plan", cwd=self.dir)
            head = json.loads(run("explain", "--plan=rates.plan", "--format=json", cwd=self.dir)[0])["headline"]
            self.assertAlmostEqual(head["tokens_a_second"] * head["step_seconds"], 8 * 8)
            told[schedule] = json.loads(run("simulate", "--plan=rates.plan", "--format=json", cwd=self.dir)[0])["model_flops"]
        self.assertEqual(told["2bw"], told["1f1b"])

    def cluster(self, text, name="made"):
        self.write(name + ".textproto", text)
        return f"--cluster={name}.textproto"

    def test_slow_nodes_take_a_share_of_the_speed(self):
        cluster = self.cluster('device { kind: CUDA } level { name: "node" size: 1 } level { name: "cluster" } '
                               'spread { slow_share: 0.5 slower: 0.2 }')
        step = lambda *flags: json.loads(self.simulate(*flags, "--format=json"))["step_seconds"]
        seconds = {flags: step(cluster, *flags) for flags in [(), ("--spread=0.5",), ("--spread=0.1",), ("--spread=0",)]}
        self.assertEqual(seconds[()], seconds[("--spread=0.5",)])
        self.assertLess(seconds[("--spread=0.1",)], seconds[()])
        self.assertLess(seconds[("--spread=0",)], seconds[("--spread=0.1",)])
        self.assertEqual(step("--spread=0"), step())  # without a spread all are alike
        for value, words in [("-0.1", "out of range"), ("0.95", "out of range"), ("nan", "out of range"), ("many", "no number"),
                             ("0.1:2", "out of range"), ("0.1:", "no number"), ("0.1:0.1:0.1", "no number")]:
            error = run("simulate", "--plan=gpt.plan", cluster, f"--spread={value}", cwd=self.dir, code=2)[1]
            self.assertIn(f"--spread={value}: is {words}", error)
        self.assertIn("acts on nothing", run("simulate", "--plan=gpt.plan", "--spread=0.1", cwd=self.dir, code=2)[1])
        self.assertEqual(step(cluster, "--spread=0.1"), step(cluster, "--spread=0.1:0.2"))
        self.assertLess(step(cluster, "--spread=0.1:0.1"), step(cluster, "--spread=0.1:0.2"))

    def test_on_many_nodes_the_step_waits_for_slow_ones(self):
        # As MegaScale's runs: 12,288 GPUs, among which some nodes are slow for certain.
        run("model", "gpt", "--layers=8", "--heads=16", "--hidden=2048", "--sequence=1024", "--vocab=50304", "--out=far.textproto", cwd=self.dir)
        run("compile", "--graph=far.textproto", "--mesh=pipe=8,data=192,tensor=8", "--batch=3072", "--micro_batches=16", "--device=cuda",
            "--precision=bf16", "--cluster=a100", "--out=far.plan", cwd=self.dir)
        step = lambda *flags: json.loads(run("simulate", "--plan=far.plan", "--cluster=a100", "--format=json", *flags, cwd=self.dir)[0])["step_seconds"]
        alike, found = step(), step("--spread=0.005:0.1")
        self.assertEqual(alike, step("--spread=0"))
        self.assertLess(alike, 0.97 * found)
        self.assertGreater(alike, 0.9 * found)

    def test_gathers_ahead_shorten_the_step(self):
        run("model", "gpt", "--layers=8", "--heads=16", "--hidden=2048", "--sequence=1024", "--vocab=50304", "--out=wide.textproto", cwd=self.dir)
        summaries = []
        for ahead in [0, 1]:
            run("compile", "--graph=wide.textproto", "--mesh=data=8", "--batch=32", "--micro_batches=4", "--shard=weights", "--device=cuda",
                "--precision=bf16", "--cluster=h100", f"--prefetch={ahead}", "--out=wide.plan", cwd=self.dir)
            summaries.append(json.loads(run("simulate", "--plan=wide.plan", "--cluster=h100", "--format=json", cwd=self.dir)[0]))
        at_use, one_ahead = summaries
        self.assertLess(one_ahead["step_seconds"], 0.8 * at_use["step_seconds"])
        # Of that of activations, as much stays exposed.
        exposed = [summary["stages"][0]["exposed_exchange_seconds"] for summary in summaries]
        self.assertLess(exposed[1], 0.7 * exposed[0])

    def test_processes_say_what_crosses(self):
        text = self.simulate("--processes=2")
        for words in ["between 2 processes, a step:", "messages out", "pulls", "stage 1", "process 1"]:
            self.assertIn(words, text)
        self.assertNotIn("between", self.simulate())
        simulated = json.loads(self.simulate("--processes=2", "--format=json"))["process_traffic"]
        explained = json.loads(run("explain", "--plan=gpt.plan", "--processes=2", "--format=json", cwd=self.dir)[0])["process_traffic"]
        self.assertEqual(simulated, explained)
        self.assertGreater(explained["all"]["bytes_received"], 0)
        for key in ["messages_sent", "messages_received", "pulls", "bytes_sent", "bytes_received"]:
            for parts in ["by_stage", "by_process"]:
                self.assertEqual(sum(part[key] for part in explained[parts]), explained["all"][key], key)
        self.assertIn("train, between 2 processes", run("explain", "--plan=gpt.plan", "--processes=2", cwd=self.dir)[0])
        for verb in ["explain", "simulate"]:
            error = run(verb, "--plan=gpt.plan", "--processes=3", cwd=self.dir, code=2)[1]
            self.assertIn("cannot be divided evenly", error)

    def test_a_slow_link_between_processes_is_paid_for(self):
        def cluster(bandwidth):
            self.write("far.textproto", 'level { name: "process" size: 1 bandwidth: 1e10 } '
                                        f'level {{ name: "host" size: 2 latency: 1e-5 bandwidth: {bandwidth} }}')
            return "--cluster=far.textproto"
        fast = json.loads(self.simulate(cluster(1e10), "--format=json"))
        slow = json.loads(self.simulate(cluster(1e6), "--format=json"))
        self.assertEqual(fast["process_traffic"]["processes"], 2)  # of the innermost level
        self.assertGreater(slow["step_seconds"], fast["step_seconds"])
        self.assertEqual(json.loads(self.simulate(cluster(1e6), "--processes=1", "--format=json")).get("process_traffic"), None)
        self.write("one.textproto", 'level { name: "process" size: 2 bandwidth: 1e9 }')
        error = run("simulate", "--plan=gpt.plan", "--cluster=one.textproto", "--processes=2", cwd=self.dir, code=2)[1]
        self.assertIn("calibrate --processes=2", error)

    def test_json_adds_up(self):
        for cluster in ["a100", "b200", "gb200", "h100", "h200", "mi300x", "v100"]:
            result = json.loads(self.simulate(f"--cluster={CLUSTERS}/{cluster}.textproto", "--format=json", "--steps=3"))
            self.assertEqual(result["devices"], 2)
            self.assertEqual(result["steps"], 3)
            self.assertLess(result["step_seconds"], result["seconds"])
            self.assertTrue(0 < result["bubble"] < 1)
            path = result["critical_path"]
            for sums in ([path["seconds"]], path["seconds_by_kernel"].values(), result["step_parts"].values(),
                         (s for kind in path["seconds_by_kind"].values() for s in kind.values())):
                self.assertAlmostEqual(sum(sums) / result["step_seconds"], 1, places=9)
            for stage in result["stages"]:
                self.assertLessEqual(stage["peak_register_bytes"], stage["arena_bytes"] - stage["persistent_bytes"])
                compute = next(s for s in stage["streams"] if s["name"] == "compute")
                self.assertEqual(len(compute["blocks"]), 3 * (4 + 4 + 1))
                parts = [stage[f"{part}_seconds"] for part in ("compute", "exposed_exchange", "idle")]
                self.assertTrue(min(parts) > 0 and stage["hidden_exchange_seconds"] > 0)
                self.assertAlmostEqual(sum(parts) + stage["exposed_copy_seconds"], result["step_seconds"])
                self.assertAlmostEqual(compute["seconds_a_step"], stage["compute_seconds"])
                ends = [block[4] for block in compute["blocks"]]
                self.assertEqual(ends, sorted(ends))

    def count_flops(self, *flags, mesh="data=1", batch=8, layers=2, hidden=16, sequence=32, vocab=256, model=()):
        """(model FLOPs, hardware FLOPs) of a Llama."""
        run("model", "llama", f"--layers={layers}", "--heads=2", f"--hidden={hidden}", "--inner=32", f"--sequence={sequence}",
            f"--vocab={vocab}", "--out=llama.textproto", *model, cwd=self.dir)
        result = json.loads(run("simulate", "--graph=llama.textproto", f"--mesh={mesh}", f"--batch={batch}", "--format=json", *flags,
                                cwd=self.dir)[0])
        return result["model_flops"], result["hardware_flops"]

    def test_model_flops_are_of_work_that_the_model_asks_for(self):
        batch, layers, hidden, sequence, vocab, inner = 8, 2, 16, 32, 256, 32
        tokens = batch * sequence
        whole = 6 * tokens * (layers * (4 * hidden ** 2 + 3 * hidden * inner) + hidden * vocab) + 12 * tokens * sequence * layers * hidden
        self.assertEqual(self.count_flops(), (whole, whole))
        # A query sees as many keys as its window has; one as long as the sequence hides nothing.
        windowed = whole - 12 * tokens * (sequence - 8) * layers * hidden
        self.assertEqual(self.count_flops(model=["--window=8"]), (windowed, windowed))
        self.assertEqual(self.count_flops(model=["--window=100"]), (whole, whole))
        self.assertEqual(self.count_flops(model=["--window=8"], mesh="context=2"), (windowed, windowed))
        # Logits in pieces are made again in the backward; keys and values in pieces are not.
        logits = 2 * tokens * hidden * vocab
        self.assertEqual(self.count_flops("--loss_pieces=4"), (whole, whole + logits))
        self.assertEqual(self.count_flops("--loss_pieces=4", "--micro_batches=2", mesh="data=2"), (whole, whole + logits))
        self.assertEqual(self.count_flops("--context_pieces=2", "--overlap=true", mesh="context=2"), (whole, whole))
        self.assertEqual(self.count_flops("--documents"), (whole, whole))

    def test_model_flops_of_experts_are_of_the_tokens_that_choose_them(self):
        tokens, layers, hidden, inner, experts, choices = 8 * 32, 2, 16, 32, 4, 2
        dense = self.count_flops()[0]
        mixture = dense + 6 * tokens * layers * ((choices - 1) * 3 * hidden * inner + hidden * experts)
        for capacity in ["0", "1", "1.25", "3"]:
            flags = [f"--experts={experts}", f"--experts_per_token={choices}", f"--capacity={capacity}"]
            self.assertEqual(self.count_flops(model=flags), (mixture, mixture), capacity)
        half = dense + 6 * tokens * layers * ((choices / 2 - 1) * 3 * hidden * inner + hidden * experts)  # half are dropped
        self.assertEqual(self.count_flops(model=[*flags[:2], "--capacity=0.5"]), (half, half))
        self.assertEqual(self.count_flops(model=flags, mesh="expert=2,data=2"), (mixture, mixture))

    def test_an_mfu_says_what_it_counts(self):
        def told(*model, mesh="data=2"):
            run("model", "llama", "--layers=2", "--heads=2", "--hidden=16", "--inner=32", "--vocab=256", "--out=counts.textproto", *model,
                cwd=self.dir)
            flags = ("--graph=counts.textproto", f"--mesh={mesh}", "--batch=8", "--cluster=h100", "--device=cpu")
            text = run("simulate", *flags, cwd=self.dir)[0]
            headline = run("compile", *flags, "--out=counts.plan", cwd=self.dir)[0]
            result = json.loads(run("simulate", *flags, "--format=json", cwd=self.dir)[0])
            counts = result.get("mfu_counts", "")
            words = re.escape(f" ({counts})") if counts else ""
            self.assertRegex(text, "MFU [0-9.]+ %" + words + ", HFU")
            self.assertRegex(headline, "MFU [0-9.]+ %" + words + ", bubble")
            tokens = result["tokens_per_second_per_device"]
            self.assertRegex(text, f" TFLOP/s and {tokens:,.0f} tokens/s a device\n")
            self.assertRegex(headline, rf" tokens/s \({tokens:,.0f} a device\)")
            return counts
        self.assertEqual("", told("--sequence=8"))
        # Of 12 t² d FLOPs of attention, a layer, causality hides (t - 1) / 2t.
        sequence, hidden = 512, 16
        attention = 12 * sequence ** 2 * hidden * 2
        share = lambda all_: f"{100 * attention * (sequence - 1) / (2 * sequence) / all_:.1f} %"
        dense = self.count_flops(sequence=sequence, batch=1)[0]
        self.assertEqual(f"t² pairs, {share(dense)} of it hidden by causality", told(f"--sequence={sequence}"))
        self.assertRegex(told("--sequence=64", "--window=8"), r"^pairs of the window, [0-9.]+ % of it hidden by causality$")
        # Of four experts a token reads one; three products, two layers.
        all_, active = (256 * 16 + 16 + 2 * (2 * 16 + 4 * 16 * 16 + 4 * 16 + n * 3 * 16 * 32) for n in (4, 1))
        self.assertEqual(f"{active / 1000:.3g} thousand of {all_ / 1000:.3g} thousand parameters active",
                         told("--sequence=8", "--experts=4", "--experts_per_token=1"))

    def test_what_is_above_100_percent_says_why(self):
        run("model", "llama", "--layers=1", "--heads=1", "--hidden=16", "--inner=16", "--sequence=4096", "--vocab=256", "--out=long.textproto",
            cwd=self.dir)
        run("compile", "--graph=long.textproto", "--batch=1", "--out=long.plan", cwd=self.dir)

        def texts(plan, measured):
            cluster = self.cluster(f'name: "made" device {{ peak_flops: 1e12 memory_bandwidth: 1e16 {measured} }}', "fast")
            return [run(verb, f"--plan={plan}", cluster, cwd=self.dir)[0] for verb in ("simulate", "explain")]

        def attention(share):
            return (f'attention_library: "a" attention {{ library: "a" head_size: 16 keys: 512 forward: {share}e12 backward: {share}e12 }}')
        for text in texts("long.plan", attention(0.9)):
            self.assertRegex(text, r"[FU] 1[0-9]{2}\.[0-9] %[;(\s]+above 100 % because pairs that causality hides count, as in published "
                                   r"figures; without them [0-9]{2}\.[0-9] %")
        found = [json.loads(run(verb, "--plan=long.plan", "--cluster=fast.textproto", "--format=json", cwd=self.dir)[0])
                 for verb in ("simulate", "explain")]
        for json_ in (found[0], found[1]["headline"]):
            self.assertGreater(json_["mfu"], 1)
            self.assertIn("pairs that causality hides count", json_["why_above_all"])
        run("compile", "--graph=gpt.textproto", "--batch=8", "--out=one.plan", cwd=self.dir)
        measured = "".join(f'kernel_time {{ kernel: "{kernel}" flops: 1e9 bytes: 1e3 seconds: 1e-5 }} '
                           for kernel in ("linear", "linear_grad_input", "linear_grad_weight"))
        for text in texts("one.plan", measured):
            self.assertIn("above 100 % because the cluster's times of kernels are shorter than its peak allows", text)
        for text in texts("long.plan", attention(0.1)):
            self.assertNotIn("above 100 %", text)

    def test_model_flops_are_megatrons(self):
        layers, heads, hidden, sequence, vocab, batch = 3, 2, 16, 8, 256, 8
        run("model", "gpt", f"--layers={layers}", f"--heads={heads}", f"--hidden={hidden}", f"--sequence={sequence}",
            f"--vocab={vocab}", "--out=three.textproto", cwd=self.dir)
        run("model", "gpt", f"--layers={layers}", f"--heads={heads}", f"--hidden={hidden}", f"--sequence={sequence}",
            f"--vocab={vocab}", "--attention=unfused", "--out=unfused.textproto", cwd=self.dir)
        forward = 24 * batch * sequence * layers * hidden ** 2 * (1 + sequence / (6 * hidden))
        model = 3 * forward + 6 * batch * sequence * hidden * vocab
        core = 4 * batch * sequence ** 2 * layers * hidden
        # Nothing needs the result of a block's last product again.
        full = forward - 8 * batch * sequence * layers * hidden ** 2
        cluster = f"--cluster={CLUSTERS}/a100.textproto"
        for graph, mesh, again, flags in [("three", "tensor=2", 0, []),
                                          ("unfused", "tensor=2", 0, ["--precision=bf16"]),
                                          ("three", "pipe=3", 0, ["--schedule=zero_bubble"]),
                                          ("unfused", "data=2", core, ["--recompute=attention"]),
                                          ("unfused", "pipe=3,tensor=2", full, ["--recompute=full", "--precision=bf16"]),
                                          ("three", "data=2,tensor=2", full, ["--recompute=full"])]:
            with self.subTest(graph=graph, mesh=mesh, flags=flags):
                result = json.loads(run("simulate", f"--graph={graph}.textproto", f"--mesh={mesh}", f"--batch={batch}",
                                        "--micro_batches=2", cluster, "--format=json", *flags, cwd=self.dir)[0])
                self.assertAlmostEqual(result["model_flops"] / model, 1, places=12)
                self.assertAlmostEqual(result["hardware_flops"] / (model + again), 1, places=12)
                peak = 312e12 if "--precision=bf16" in flags else 19.5e12
                rate = model / result["devices"] / result["step_seconds"]
                self.assertAlmostEqual(result["model_flops_a_device_second"] / rate, 1, places=12)
                self.assertAlmostEqual(result["mfu"] * peak / rate, 1, places=12)
                self.assertAlmostEqual(result["hfu"] / result["mfu"], 1 + again / model, places=12)
        self.assertNotIn("above 100 %", self.simulate(cluster))
        text = self.simulate(cluster)
        self.assertRegex(text, r"the model's products: [0-9.e+-]+ TFLOP/s a device, MFU [0-9.]+ %, HFU [0-9.]+ %")
        # Without a peak there is a rate, and no share of it.
        self.assertEqual(json.loads(self.simulate("--format=json"))["mfu"], None)
        self.assertRegex(self.simulate(), r"the model's products: [0-9.e+-]+ TFLOP/s a device\n")
        # Nothing is differentiated in eval.
        result = json.loads(self.simulate(cluster, "--program=eval", "--format=json"))
        trained = json.loads(self.simulate(cluster, "--format=json"))
        # The run counts one micro-batch of four.
        self.assertAlmostEqual(3 * 4 * result["model_flops"] / trained["model_flops"], 1, places=12)

    def test_every_verb_says_one_time(self):
        # Exchanges slow kernels down here, by what is known of all firings, skipped or not.
        cluster = "--cluster=" + os.path.join(CLUSTERS, "a100.textproto")
        out = run("compile", "--graph=gpt.textproto", "--mesh=tensor=2,data=2", "--batch=128", "--micro_batches=32", "--device=cuda", cluster, "--format=json", "--out=one.plan", cwd=self.dir)[0]
        said = json.loads(out)["headline"]["step_seconds"]
        for verb in ["simulate", "explain"]:
            result = json.loads(run(verb, "--plan=one.plan", cluster, "--format=json", cwd=self.dir)[0])
            self.assertEqual(result.get("step_seconds") or result["headline"]["step_seconds"], said, verb)

    def test_a_mesh_larger_than_the_cluster_is_refused(self):
        def cluster(sizes, kind="CUDA"):
            self.write("small.textproto", f'name: "few" device {{ kind: {kind} }} ' +
                                          " ".join(f'level {{ name: "{n}" size: {s} bandwidth: 1e9 }}' for n, s in sizes))
            return "--cluster=small.textproto"
        for verb in ["simulate", "explain", "diff"]:
            plans = ["gpt.plan", "gpt.plan"] if verb == "diff" else ["--plan=gpt.plan"]
            html = ["--format=html"] if verb == "explain" else []
            error = run(verb, *plans, cluster([("node", 1), ("cluster", 1)]), *html, cwd=self.dir, code=2)[1]
            for words in ["cluster few", "has 1 devices (cluster of 1 x node of 1)", "pipe=2 has 2", "smaller mesh"]:
                self.assertIn(words, error)
        error = run("compile", "--graph=gpt.textproto", "--mesh=pipe=2", "--batch=8", cluster([("node", 1), ("cluster", 1)]), "--out=big.plan", cwd=self.dir, code=2)[1]
        for words in ["cluster few", "has 1 devices (cluster of 1 x node of 1)", "pipe=2 has 2", "smaller mesh"]:
            self.assertIn(words, error)
        self.assertFalse(os.path.exists(self.dir + "/big.plan"))
        for enough in [[("node", 1), ("cluster", 2)], [("node", 1), ("cluster", 0)], [("node", 2)], []]:
            self.simulate(cluster(enough))
        self.simulate(cluster([("process", 1)], "CPU"))  # devices of CPUs are threads

    def test_devices_that_share_cores_are_slower(self):
        def cluster(cores):
            self.write("cores.textproto", f"device {{ kernel_threads: 1 peak_flops: 1e9 }} {cores}")
            return "--cluster=cores.textproto"
        run("compile", "--graph=gpt.textproto", "--mesh=pipe=2,data=2", "--batch=8", cluster(""), "--out=four.plan", cwd=self.dir)
        seconds = {}
        for cores in ["", "cores: 4", "cores: 2", "cores: 1"]:
            result = json.loads(run("simulate", "--plan=four.plan", cluster(cores), "--format=json", cwd=self.dir)[0])
            text = run("simulate", "--plan=four.plan", cluster(cores), cwd=self.dir)[0]
            self.assertEqual("kernel threads share" in text, cores in ("cores: 2", "cores: 1"))
            self.assertEqual(result["kernel_threads"], 4)
            seconds[cores] = result["step_seconds"]
        self.assertIn("4 kernel threads share 1 cores: all work is taken to last 4 times as long", text)
        self.assertEqual(seconds[""], seconds["cores: 4"])
        # All but messages between workers, a microsecond each.
        self.assertAlmostEqual(seconds["cores: 2"] / seconds[""], 2, places=2)
        self.assertAlmostEqual(seconds["cores: 1"] / seconds[""], 4, places=2)

    def test_kernels_beside_exchanges_take_longer(self):
        def simulated(usage):
            self.write("usage.textproto", "device { kind: CUDA peak_flops: 1e10 memory_bandwidth: 1e10 } "
                                          f"level {{ size: 2 latency: 1e-6 bandwidth: 1e9 processor_usage: {usage} }}")
            flags = ["--mesh=data=2", "--batch=8", "--overlap=true", "--bucket_bytes=1KiB"]
            return json.loads(run("simulate", "--graph=gpt.textproto", *flags, "--cluster=usage.textproto", "--format=json",
                                  "--steps=8", cwd=self.dir)[0])
        alone, beside = simulated(0), simulated(.5)
        [before], [after] = alone["stages"], beside["stages"]
        hidden = before["hidden_exchange_seconds"]
        self.assertGreater(hidden, 0)
        # Half of the processors are lost while an exchange goes on beside kernels.
        self.assertAlmostEqual((after["compute_seconds"] - before["compute_seconds"]) / (.5 * hidden), 1, delta=.02)
        self.assertGreater(beside["step_seconds"], alone["step_seconds"])

    def test_lists_that_are_cut_say_so(self):
        result = json.loads(self.simulate("--format=json"))
        explained = json.loads(run("explain", "--plan=gpt.plan", "--format=json", cwd=self.dir)[0])
        actors = next(p for p in explained["programs"] if p["name"] == "train")["actors"]
        self.assertEqual(len(result["actors"]), 40)
        listed = sum(len(result[kind]) + result[kind + "_left_out"] for kind in ["actors", "boxing"])
        self.assertEqual(listed, len(actors))
        self.assertGreater(result["actors_left_out"], 0)
        self.assertEqual(result["critical_path"]["blocks_left_out"], 0)

    def test_faster_devices_take_less_time(self):
        seconds = [json.loads(self.simulate(f"--cluster={CLUSTERS}/{c}.textproto", "--format=json"))["step_seconds"]
                   for c in ["v100", "a100", "h100", "h200"]]
        self.assertEqual(seconds, sorted(seconds, reverse=True))

    def test_trace_has_the_form_of_the_real_one(self):
        self.simulate("--steps=2", "--trace=simulated.json")
        self.write("text", "some words to learn from. " * 50)
        run("train", "--plan=gpt.plan", "--data=text", "--steps=2", "--trace=real.json", cwd=self.dir)
        with open(self.dir + "/simulated.json") as simulated, open(self.dir + "/real.json") as real:
            simulated, real = json.load(simulated), json.load(real)
        self.assertEqual(tracks(simulated), tracks(real))
        arrows = [sum(e["ph"] == "s" and e["name"] == "fill" for e in t["traceEvents"]) for t in (simulated, real)]
        self.assertEqual(arrows[0], arrows[1])


if __name__ == "__main__":
    unittest.main()
