"""Training systems of a cluster file: the band beside each predicted time, and --system."""
import json
import math
import unittest

from tests.e2e.cli import TwoStagesCase, run


def systems(slowdown=1, least=1, sustained=""):
    """A cluster with systems `one`, whose runs have sequences of `least` tokens and more, and `same`, of mixtures."""
    def region(more):
        return (f"region {{ sequence {{ least: {least} most: 64 }} parameters {{ least: 1 most: 1e6 }} devices {{ least: 1 most: 8 }} "
                f"device_tokens {{ least: 1 most: 1e4 }} {more} }}")
    return (f'name: "made" device {{ {sustained} }} system {{ name: "one" what: "System one" slowdown: {slowdown} '
            f'{region("runs: 9 models: 5 sigma: 0.04")} }} system {{ name: "same" what: "Another" slowdown: 1 '
            f'{region("experts: true slots { least: 1 most: 2 } runs: 2 models: 1 sigma: 0.1")} }} between_systems {{ sigma: 0.1 freedom: 1 what: "H100s" }}')


class SystemsTest(TwoStagesCase):
    def cluster(self, text, name="made"):
        self.write(name + ".textproto", text)
        return f"--cluster={name}.textproto"

    def test_times_of_steps_say_how_such_predictions_have_held(self):
        compared = self.cluster(systems())
        explain = lambda *flags: run("explain", "--plan=gpt.plan", *flags, cwd=self.dir)[0]
        compile_ = lambda *flags: run("compile", "--graph=gpt.textproto", "--out=other.plan", *flags, cwd=self.dir)[0]
        diff = lambda *flags: run("diff", "gpt.plan", "other.plan", *flags, cwd=self.dir)[0]
        one = {"system": "one", "sigma": 0.04, "runs": 9, "models": 5, "systems": 1, "what": "System one on H100s"}
        other = {"system": None, "sigma": math.sqrt(0.04 ** 2 + (math.tan(math.pi / 2 * math.erf(0.5 ** 0.5)) * 0.1) ** 2), "runs": 9, "models": 5, "systems": 1,
                 "what": "systems on H100s"}
        far = {"system": None, "outside": "8 tokens of a sequence"}
        unknown = r" \(no run of this kind was compared\)"
        for flags, words, json_ in [([compared, "--system=one"], r" ± 4 % \(1 σ of 9 runs of 5 models by System one on H100s\)", one),
                                    ([compared], r" ± 19 % \(1 σ of a system that was not compared; 1 system on H100s was; "
                                     r"--system narrows it\)", other),
                                    ([self.cluster(systems(least=16), "far")],
                                     r" \(no run like this \(8 tokens of a sequence on H100s\) was compared\)", far),
                                    ([self.cluster('name: "unknown"', "unknown")], unknown, None), ([], unknown, None)]:
            with self.subTest(flags=flags):
                self.assertRegex(self.simulate(*flags), r"\na step: [0-9.]+ [mu]?s" + words + "; bubble")
                self.assertRegex(explain(*flags), r"\npredicted: step [0-9.]+ [mu]?s" + words + ", [0-9,]+ tokens/s")
                self.assertRegex(compile_(*flags), r"\npredicted: step [0-9.]+ [mu]?s" + words + ", [0-9,]+ tokens/s")
                self.assertRegex(diff(*flags), r"(?m)^  times" + words + "$")
                for told in (json.loads(self.simulate(*flags, "--format=json")), json.loads(explain(*flags, "--format=json"))["headline"],
                             json.loads(compile_(*flags, "--format=json"))["headline"]):
                    self.assert_band(json_, told["compared"], told["step_seconds"])
                bands = json.loads(diff(*flags, "--format=json"))["compared"]
                self.assertEqual(["a", "b"], list(bands))
                for band in bands.values():
                    self.assert_band(json_, band)
                page = explain(*flags, "--format=html")
                self.assertRegex(page, '"' + words.lstrip() + '"')
        self.assertRegex(run("diff", "gpt.plan", "gpt.plan", compared, cwd=self.dir)[0], "the plans are alike")

    def assert_band(self, expected, band, seconds=None):
        if expected is None or "outside" in expected:
            self.assertEqual(expected, band)
            return
        band = dict(band)
        low, high = band.pop("low_seconds"), band.pop("high_seconds")
        if seconds is not None:
            self.assertAlmostEqual(seconds * math.exp(-band["sigma"]) / low, 1, places=12)
            self.assertAlmostEqual(seconds * math.exp(band["sigma"]) / high, 1, places=12)
        self.assertAlmostEqual(expected["sigma"], band["sigma"], places=7)
        self.assertEqual({**expected, "sigma": None}, {**band, "sigma": None})

    def test_a_system_has_its_own_rates(self):
        made = self.cluster(systems(slowdown=1.25))
        step = lambda *flags: json.loads(self.simulate(*flags, "--format=json"))["step_seconds"]
        self.assertAlmostEqual(step(made, "--system=one") / step(self.cluster(systems(sustained="sustained { compute: 0.8 memory: 0.8 }"), "slow")), 1, places=12)
        self.assertGreater(step(made, "--system=one"), 1.05 * step(made))
        # A plan keeps the system that it was compiled for, and may be asked for another one.
        run("compile", "--graph=gpt.textproto", made, "--system=one", "--out=one.plan", cwd=self.dir)
        kept = lambda *flags: json.loads(run("simulate", "--plan=one.plan", "--format=json", *flags, cwd=self.dir)[0])
        self.assertEqual("one", kept()["compared"]["system"])
        for flags in [("--system=one",), (made, "--system=one"), ("--cluster=one.plan",)]:
            self.assertEqual(kept()["step_seconds"], kept(*flags)["step_seconds"], flags)
        self.assertEqual(kept(made)["step_seconds"], kept("--system=same")["step_seconds"])
        # Systems may be faster than the devices are said to be.
        fast = self.cluster(systems(slowdown=0.5), "fast")
        self.assertLess(step(fast, "--system=one"), step(fast))
        run("compile", "--graph=gpt.textproto", fast, "--system=one", "--out=fast.plan", cwd=self.dir)
        run("simulate", "--plan=fast.plan", cwd=self.dir)

    def test_a_search_and_its_recipe_are_for_the_system(self):
        made = self.cluster(systems(slowdown=1.25))
        search = ("search", "--graph=gpt.textproto", "--devices=1", "--batch=4", made, "--system=one", "--out_recipe=one.recipe")
        self.assertIn("--out_recipe: cannot say --memory, --reserve and --system but by the plan", run(*search, cwd=self.dir, code=2)[1])
        found = json.loads(run(*search, "--out=one.plan", "--format=json", cwd=self.dir)[0])
        plan = found["plans"][found["simplest"]]
        self.assertEqual("one", plan["compared"]["system"])
        self.assertIn("--system=one", plan["flags"])
        run("compile", "--recipe=one.recipe", "--out=again.plan", cwd=self.dir)
        self.assertEqual(self.read("one.plan"), self.read("again.plan"))

    def test_a_system_that_is_not_there(self):
        made = self.cluster(systems())
        for flags, words in [((made, "--system=ona"), "--system=ona: made has no such system; it has one, same"),
                             (("--system=one",), "no systems whose runs were compared; leave it out, or give a --cluster")]:
            for verb in (["simulate", "--plan=gpt.plan"], ["compile", "--graph=gpt.textproto", "--out=none.plan"],
                         ["explain", "--plan=gpt.plan"], ["diff", "gpt.plan", "gpt.plan"], ["train", "--plan=gpt.plan", "--data=gpt.textproto"]):
                with self.subTest(verb=verb, flags=flags):
                    self.assertIn(words, run(*verb, *flags, cwd=self.dir, code=2)[1])

    def test_what_is_wrong_with_systems(self):
        def system(name="one", what="One", slowdown="1", sequence="{ least: 1 most: 2 }", rest="runs: 2 models: 2 sigma: 0.1", region=None):
            figures = f"sequence {sequence} parameters {{ most: 9 }} devices {{ least: 1 most: 8 }} device_tokens {{ most: 9 }}"
            region = f"region {{ {figures} {rest} }}" if region is None else region
            return f'system {{ name: "{name}" what: "{what}" slowdown: {slowdown} {region} }} '
        between = 'between_systems { sigma: 0.1 freedom: 2 what: "H100s" }'
        self.write("systems.textproto", system() + system(name="two") + between)
        run("simulate", "--plan=gpt.plan", "--cluster=systems.textproto", cwd=self.dir)
        for fields, words in [(system(name="") + between, ['system[0].name is ""', "use a word"]),
                              (system(name="a b") + between, ['system[0].name is "a b"', "use a word"]),
                              (system() + system() + between, ['system[1].name is "one", twice', "a name of its own"]),
                              (system(what="") + between, ["system[0] has no what"]),
                              (system(region="") + between, ["system[0] has no region"]),
                              (system(slowdown="0.1") + between, ["system[0].slowdown is 0.1", "use 0.2 to 5"]),
                              (system(slowdown="6") + between, ["system[0].slowdown is 6"]),
                              (system(slowdown="nan") + between, ["system[0].slowdown is nan"]),
                              (system(sequence="{ }") + between, ["system[0].region[0].sequence is 0 to 0", "its least and its most"]),
                              (system(sequence="{ least: 3 most: 2 }") + between, ["system[0].region[0].sequence is 3 to 2"]),
                              (system(sequence="{ least: -1 most: 2 }") + between, ["system[0].region[0].sequence.least is -1"]),
                              (system(sequence="{ most: inf }") + between, ["system[0].region[0].sequence.most is inf"]),
                              (system(rest="runs: 2 models: 3 sigma: 0.1") + between, ["system[0].region[0] is of 2 runs of 3 models"]),
                              (system(rest="sigma: 0.1") + between, ["system[0].region[0] is of 0 runs of 0 models"]),
                              (system(rest="runs: 2 models: 2") + between, ["system[0].region[0].sigma is 0"]),
                              (system(), ["between_systems, of 1 systems, has sigma 0, freedom 0"]),
                              (between, ["between_systems, of 0 systems"]),
                              (system() + between.replace("freedom: 2", "freedom: 0"), ["freedom 0", "a freedom of 1 to 1000"]),
                              (system() + between.replace("freedom: 2", "freedom: 1001"), ["freedom 1001", "a freedom of 1 to 1000"]),
                              (system() + between.replace("0.1", "0"), ["has sigma 0, freedom 2"]),
                              (system() + between.replace("H100s", ""), ['what ""', 'e.g. "H100s"']),
                              (system() + between + ' as_system: "one"', ['as_system is "one", which a plan has', "--system sets it"])]:
            with self.subTest(fields):
                self.write("systems.textproto", fields)
                error = run("simulate", "--plan=gpt.plan", "--cluster=systems.textproto", cwd=self.dir, code=2)[1]
                for word in ["systems.textproto: ", *words]:
                    self.assertIn(word, error)


if __name__ == "__main__":
    unittest.main()
