import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { matchesPath, readDevicePolicies } from "../policy/device-policy.ts";
import { readBattery } from "./read-battery.ts";
import { readDevices } from "./read-devices.ts";
import { readLocation } from "./read-location.ts";

let sys: string;
beforeEach(() => {
  sys = mkdtempSync(join(tmpdir(), "keelson-sys-"));
});
afterEach(() => rmSync(sys, { recursive: true, force: true }));

function write(path: string, text: string): void {
  mkdirSync(dirname(join(sys, path)), { recursive: true });
  writeFileSync(join(sys, path), `${text}\n`);
}

test("devices are listed by number, once each, under the first path that the policy offers", () => {
  const policies = readDevicePolicies([
    { name: "random", paths: ["/dev/urando*", "/dev/missing"], shares: 2, attributes: { speed: "1" } },
    { name: "other", paths: ["/dev/urandom", "/dev/zero", "/dev/fd", "/dev/none/*"] },
  ]);
  expect(readDevices(policies, sys)).toEqual([
    { id: "/dev/urandom", name: "random", shares: 2, attributes: { speed: "1" } },
    { id: "/dev/zero", name: "other" },
  ]);
});

test("attributes are what the system knows about the hardware, overridden by the policy", () => {
  const usb = "devices/pci0/usb1/1-2";
  for (const [name, text] of Object.entries({ idVendor: "0403", idProduct: "6001", product: "FT232", serial: "A1" })) {
    write(`${usb}/${name}`, text);
  }
  mkdirSync(join(sys, usb, "1-2:1.0", "ttyUSB0"), { recursive: true });
  mkdirSync(join(sys, "drivers/ftdi_sio"), { recursive: true });
  symlinkSync(join(sys, "drivers/ftdi_sio"), join(sys, usb, "1-2:1.0", "ttyUSB0", "driver"));
  mkdirSync(join(sys, "dev/char/1:5"), { recursive: true });
  symlinkSync(join(sys, usb, "1-2:1.0", "ttyUSB0"), join(sys, "dev/char/1:5/device"));
  write("devices/pci0/vendor", "0x8086");
  write("devices/pci0/device", "0x1234");
  const policies = readDevicePolicies([{ name: "serial", paths: ["/dev/zero"], attributes: { serial: "mine" } }]);
  expect(readDevices(policies, sys)).toEqual([
    {
      ...{ id: "/dev/zero", name: "serial" },
      attributes: { driver: "ftdi_sio", "vendor-id": "0403", "product-id": "6001", product: "FT232", serial: "mine" },
    },
  ]);
  rmSync(join(sys, usb), { recursive: true });
  mkdirSync(join(sys, usb, "1-2:1.0", "ttyUSB0"), { recursive: true });
  expect(readDevices(policies, sys)[0]?.attributes).toEqual({ "vendor-id": "8086", "product-id": "1234", serial: "mine" });
});

test.each([
  ["/dev/ttyUSB*", "/dev/ttyUSB12", true],
  ["/dev/ttyUSB*", "/dev/ttyACM0", false],
  ["/dev/ttyUSB*", "/dev/ttyUSB0/../sda", false],
  ["/dev/*", "/dev/dri/card0", false],
  ["/dev/a.b", "/dev/axb", false],
  ["/dev/a.b*", "/dev/axb", false],
  ["/dev/x", "/dev/x", true],
])("the pattern %s matches %s: %j", (pattern, path, isMatch) => {
  expect(matchesPath({ paths: [pattern] }, path)).toBe(isMatch);
});

test("the battery is the one of the robot with the lowest charge", () => {
  expect(readBattery(sys)).toBeUndefined();
  const supply = (name: string, files: Readonly<Record<string, string>>) => {
    for (const [file, text] of Object.entries(files)) write(`class/power_supply/${name}/${file}`, text);
  };
  supply("AC", { type: "Mains", online: "1" });
  supply("hid", { type: "Battery", scope: "Device", capacity: "3" });
  expect(readBattery(sys)).toBeUndefined();
  supply("BAT0", { type: "Battery", capacity: "81", status: "Discharging" });
  supply("BAT1", { type: "Battery", capacity: "0", status: "Not charging" });
  expect(readBattery(sys)).toEqual({ percent: 0, state: "not charging" });
});

test.each([
  ['{"latitude": 48.1, "longitude": 11.5, "name": "hall 4"}', { latitude: 48.1, longitude: 11.5, name: "hall 4" }],
  ['{"latitude": 91, "longitude": "x", "altitude": 500}', { altitude: 500 }],
  ['{"latitude": 91}', undefined],
  ["[1]", undefined],
  ["{", undefined],
  [`{"name": "x"${" ".repeat(5000)}}`, undefined],
])("the location %s is %j", (text, location) => {
  write("location", text);
  expect(readLocation(join(sys, "location"))).toEqual(location);
  expect(readLocation(join(sys, "none"))).toBeUndefined();
});

test("a location that is a FIFO or a device does not stop the agent", () => {
  execFileSync("mkfifo", [join(sys, "fifo")]);
  symlinkSync("/dev/zero", join(sys, "zero"));
  expect([readLocation(join(sys, "fifo")), readLocation(join(sys, "zero")), readLocation(sys)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
