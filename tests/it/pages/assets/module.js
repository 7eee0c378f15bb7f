import "https://cdn.example.com/library.js"; const from = "./not-a-file";
