import "/board.js";
import "./imports.js";
import "./board.js";
