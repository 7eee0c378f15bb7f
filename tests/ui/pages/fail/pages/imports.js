import { a } from "./imported.js"; import"./absent.js"; const path = "./imported.js";
