import { adoptionRules } from "./contract/adoption.ts";
import { besideRules } from "./contract/beside.ts";
import { endingRules } from "./contract/ending.ts";
import { environmentRules } from "./contract/environment.ts";
import { inputRules } from "./contract/input.ts";
import { resourceRules } from "./contract/resources.ts";
import type { DriverContractCase } from "./contract/setup.ts";
import { startingRules } from "./contract/starting.ts";

/** The rules that hold for every driver, by subject. Each takes a fresh folder. */
export const driverContract: readonly DriverContractCase[] = [
  ...startingRules,
  ...environmentRules,
  ...endingRules,
  ...resourceRules,
  ...besideRules,
  ...inputRules,
  ...adoptionRules,
];
